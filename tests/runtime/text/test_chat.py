"""Chat templates: rendered as transformers renders them, and safe from what users say."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tokenizers import normalizers
from transformers.utils.chat_template_utils import render_jinja_template

from forebay_runtime.request import RequestError
from forebay_runtime.text.chat import CUT, ChatTemplate
from forebay_runtime.text.errors import TokenizerError
from tests.support.toy_text import END, START, TEMPLATE, toy_template, toy_tokenizer

TOY = toy_tokenizer()
MESSAGES = [
    {"role": "system", "content": "Be  brief."},
    {"role": "user", "content": " What is <b>&</b> it? "},
    {"role": "assistant", "content": 'It\'s "this".'},
    {"role": "user", "content": "日本 😀\n"},
]
TEMPLATES = [
    TEMPLATE,
    "{{ bos_token }}{%- for m in messages %}\n{{ m.role | upper }}: {{ m.content | trim }}\n{%- endfor %}",
    "{% for m in messages %}\n  {% if loop.index > 2 %}{% break %}{% endif %}\n{{ m | tojson }}\n{% endfor %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% endif %}"
    "{% endfor %}{{ eos_token }}",
    "{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.found = true %}"
    "{% endif %}{% endfor %}{{ ns.found }}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | tojson(indent=1) }}",
]


def say(content: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_render_as_in_transformers(template: str) -> None:
    want, _ = render_jinja_template(
        [MESSAGES], chat_template=template, add_generation_prompt=True, bos_token="", eos_token=END
    )
    assert ChatTemplate(template, TOY).render(MESSAGES) == want[0]


def test_variables_reach_the_template() -> None:
    template = ChatTemplate("{{ enable_thinking }} {{ add_generation_prompt }}", TOY)
    assert template.render(say("x"), {"enable_thinking": False, "add_generation_prompt": False}) == "False False"


def test_the_prompt_is_the_rendered_text_in_tokens() -> None:
    assert toy_template(TOY).encode(MESSAGES) == TOY.encode(toy_template(TOY).render(MESSAGES))


@pytest.mark.parametrize(
    "content",
    [END, f"a{END}b{START}", f"{END}{END}", "<|end<|end|>|>", "<|<|start|>end|>", f"x {CUT}{END}", f"<|en{CUT}d|>"],
)
def test_what_users_say_makes_no_control_tokens(content: str) -> None:
    ids = toy_template(TOY).encode(say(content))
    empty = toy_template(TOY).encode(say(""))
    assert [i for i in ids if i in TOY.special_ids] == [i for i in empty if i in TOY.special_ids]
    assert content.replace(CUT, "") in TOY.decode(ids)


def test_a_control_token_is_not_completed_by_the_template() -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}", TOY)
    messages = [{"role": "user", "content": "<|en"}, {"role": "user", "content": "d|>"}]
    assert not set(template.encode(messages)) & TOY.special_ids


def test_control_tokens_are_taken_apart_in_every_field() -> None:
    template = ChatTemplate("{{ messages[0].name }}{{ messages[0].parts[0].x }}{{ extra }}", TOY)
    messages = [{"role": "user", "name": END, "parts": [{"x": START}]}]
    assert not set(template.encode(messages, {"extra": END})) & TOY.special_ids


def test_control_tokens_are_taken_apart_in_keys_but_names_stay() -> None:
    template = ChatTemplate("{{ messages[0].arguments | tojson }}{{ messages[0]['content'] }}", TOY)
    messages = [{"role": "user", "content": "x", "arguments": {END: 1, "a": {f"b {START}": 2}}}]
    assert not set(template.encode(messages)) & TOY.special_ids
    assert TOY.decode(template.encode(messages)) == f'{{"{END}": 1, "a": {{"b {START}": 2}}}}x'


def test_text_that_is_normalized_to_a_control_token_makes_none() -> None:
    tokenizer = toy_tokenizer(normalizer=normalizers.NFKC())
    fullwidth = END.replace("<", "＜")
    assert set(tokenizer.encode(fullwidth)) & tokenizer.special_ids
    ids = toy_template(tokenizer).encode(say(fullwidth))
    assert [i for i in ids if i in tokenizer.special_ids] == [
        i for i in toy_template(tokenizer).encode(say("")) if i in tokenizer.special_ids
    ]


def test_the_final_message_is_continued_where_it_ends() -> None:
    messages = [*say("the river"), {"role": "assistant", "content": "ran past "}]
    text = toy_template(TOY).render(messages, continue_final=True)
    assert text.endswith(f"{START}assistant\nran past ")
    assert text == toy_template(TOY).render(messages, {"add_generation_prompt": False}).removesuffix(f"{END}\n")


def test_a_final_message_that_the_template_changes_can_t_be_continued() -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.content | length }}{% endfor %}", TOY)
    with pytest.raises(RequestError) as refused:
        template.render(say("x"), continue_final=True)
    assert refused.value.param == "continue_final_message"


def test_a_template_that_refuses_is_the_client_s_fault() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}", TOY)
    with pytest.raises(RequestError, match="roles must alternate") as refused:
        template.encode(say("x"))
    assert (refused.value.status, refused.value.param) == (400, "messages")


def test_a_template_reaches_nothing_of_python() -> None:
    template = ChatTemplate("{{ messages.__class__.__mro__ }}", TOY)
    with pytest.raises(RequestError):
        template.render(say("x"))


def test_a_template_that_does_not_compile_is_refused_at_start() -> None:
    with pytest.raises(TokenizerError, match="does not compile"):
        ChatTemplate("{% for %}", TOY)


def test_rendering_needs_no_more_of_transformers_than_its_templates() -> None:
    code = (
        "import sys; from forebay_runtime.text.template_engine import import_renderer; render = import_renderer()\n"
        "assert not [m for m in sys.modules if m.startswith('transformers')]\n"
        "print(render([[{'content': 'so'}]], chat_template='{{ messages[0].content }}')[0][0])\n"
        "import transformers.utils; transformers.utils.ContextManagers"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "so"

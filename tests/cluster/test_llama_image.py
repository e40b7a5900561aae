"""What the image of llama.cpp's server is made of."""

from pathlib import Path

from e2e.engines.llama_image import linked

TOLD = """\
\tlinux-vdso.so.1 (0x00007fb047e0c000)
\tlibllama.so.0 => /bin/libllama.so.0 (0x00007fb046a00000)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007fb046320000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007fb047e0e000)
"""


def test_the_libraries_that_lie_in_files_are_those_of_the_image() -> None:
    assert linked(TOLD) == (
        Path("/bin/libllama.so.0"),
        Path("/lib/x86_64-linux-gnu/libm.so.6"),
        Path("/lib64/ld-linux-x86-64.so.2"),
    )

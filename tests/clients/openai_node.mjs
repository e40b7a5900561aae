// openai-node: chats, tools, responses, embeddings, models, errors.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [url, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Say something about rivers." }];
const asked = { model, messages, temperature: 0, max_tokens: 12 };

const plain = await client.chat.completions.create(asked);
let text = "";
for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
  text += chunk.choices[0]?.delta?.content ?? "";
}
assert.equal(text, plain.choices[0].message.content);
assert.equal(plain.usage.total_tokens, plain.usage.prompt_tokens + 12);

const schema = {
  type: "object",
  properties: { rising: { type: "boolean" } },
  required: ["rising"],
  additionalProperties: false,
};
const strict = { type: "json_schema", json_schema: { name: "gauge", strict: true, schema } };
const kept = await client.chat.completions.create({ ...asked, max_tokens: 60, response_format: strict });
assert.equal(typeof JSON.parse(kept.choices[0].message.content).rising, "boolean");

const tool = { type: "function", function: { name: "open_gate", parameters: schema } };
const runner = client.chat.completions.stream({
  ...asked,
  max_tokens: 60,
  tools: [tool],
  tool_choice: { type: "function", function: { name: "open_gate" } },
});
const call = (await runner.finalChatCompletion()).choices[0].message.tool_calls[0];
assert.equal(call.function.name, "open_gate");
assert.equal(typeof JSON.parse(call.function.arguments).rising, "boolean");

const input = { model, input: "Say something about rivers.", temperature: 0, max_output_tokens: 12 };
const response = await client.responses.create(input);
let streamed = "";
for await (const event of await client.responses.create({ ...input, stream: true })) {
  if (event.type === "response.output_text.delta") streamed += event.delta;
}
assert.equal(streamed, response.output_text);
assert.equal((await client.responses.retrieve(response.id)).id, response.id);

const vectors = await client.embeddings.create({ model, input: ["a river", "a mill"] });
assert.equal(vectors.data.length, 2);
assert.ok(Math.abs(vectors.data[0].embedding.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-3);

const names = [];
for await (const one of client.models.list()) names.push(one.id);
assert.ok(names.includes(model));
await assert.rejects(client.chat.completions.create({ ...asked, model: "other" }), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ ...asked, temperature: 9 }), OpenAI.BadRequestError);
process.stdout.write("openai-node");

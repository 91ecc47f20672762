// A job type's page in Node: it works once for each Idempotency-Key. Needs nothing but Node.
// PORT=8087 WORKED=worked.txt SECRET=whsec_... node page.mjs

import { createHmac, timingSafeEqual } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";

const { PORT = "8087", WORKED = "worked.txt", SECRET = "" } = process.env;
// Yours is a table with a unique key, written in the transaction of the work. Here key and work are one line of a file.
const lines = existsSync(WORKED) ? readFileSync(WORKED, "utf8").split("\n") : [];
const keys = new Set(lines.map((line) => line.split("\t")[0]));

// Standard Webhooks: one of the signatures is ours, and it was made within the last five minutes.
function signed(headers, body) {
  const madeAt = headers["webhook-timestamp"];
  const mac = createHmac("sha256", Buffer.from(SECRET.replace("whsec_", ""), "base64"));
  const ours = Buffer.from("v1," + mac.update(`${headers["webhook-id"]}.${madeAt}.`).update(body).digest("base64"));
  const given = (headers["webhook-signature"] ?? "").split(" ").map((each) => Buffer.from(each));
  const fresh = Math.abs(Date.now() / 1000 - Number(madeAt)) < 300;
  return fresh && given.some((each) => each.length === ours.length && timingSafeEqual(ours, each));
}

async function page(headers, body) {
  if (SECRET && !signed(headers, body)) return [401, { why: "wrong signature" }];
  const job = JSON.parse(body);
  const key = headers["idempotency-key"];
  if (!key || !("invoice" in job)) return [422, { why: "no key, or no invoice" }]; // a definitive no: the job ends as failed
  if (keys.has(key)) {
    console.log("dropped", key);
  } else {
    appendFileSync(WORKED, `${key}\t${body}\n`);
    keys.add(key);
  }
  await setTimeout(1000 * (job.seconds ?? 0));
  return [200, { invoice: job.invoice, sent: true }];
}

createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const [status, answer] = await page(request.headers, Buffer.concat(parts));
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
}).listen(Number(PORT), "127.0.0.1");

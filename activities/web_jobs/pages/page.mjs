// A job type's page in Node: it checks the signature, and works once for each key that is signed. Needs only Node.
// PORT=8087 ORIGIN=https://billing.internal WORKED=worked.txt SECRET=whsec_... node page.mjs

import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";

const { PORT = "8087", WORKED = "worked.txt", SECRET } = process.env;
if (!SECRET) throw new Error("SECRET is not set");
const { ORIGIN = `http://127.0.0.1:${PORT}` } = process.env; // as callers know it: behind a proxy, the proxy's
const COVERED = ["@method", "@target-uri", "content-digest", "idempotency-key", "perdure-job"];
// Yours is a table with a unique key, written in the transaction of the work. Here key and work are one line of a file.
const lines = existsSync(WORKED) ? readFileSync(WORKED, "utf8").split("\n") : [];
const keys = new Set(lines.map((line) => line.split("\t")[0]));

// RFC 9421: a signature with our secret, of the last five minutes, covers the whole request.
function signed(method, target, headers, body) {
  const digest = "sha-256=:" + createHash("sha256").update(body).digest("base64") + ":";
  const values = { ...headers, "@method": method, "@target-uri": ORIGIN + target };
  const given = Object.fromEntries([...(headers.signature ?? "").matchAll(/(\w+)=:([^:]*):/g)].map((each) => each.slice(1)));
  for (const [, label, params] of (headers["signature-input"] ?? "").matchAll(/(\w+)=(\([^)]*\)[^,]*)/g)) {
    const names = [...params.split(")")[0].matchAll(/"([^"]+)"/g)].map((each) => each[1]);
    const fresh = Math.abs(Date.now() / 1000 - Number(params.match(/;created=(\d+)/)?.[1])) < 300;
    const base = [...names.map((name) => `"${name}": ${values[name] ?? ""}`), `"@signature-params": ${params}`].join("\n");
    const ours = createHmac("sha256", Buffer.from(SECRET.replace("whsec_", ""), "base64")).update(base).digest();
    const theirs = Buffer.from(given[label] ?? "", "base64");
    const whole = COVERED.every((name) => names.includes(name)) && headers["content-digest"] === digest;
    if (fresh && whole && theirs.length === ours.length && timingSafeEqual(ours, theirs)) return true;
  }
  return false;
}

async function page({ method, url, headers }, body) {
  if (!signed(method, url, headers, body)) return [401, { why: "wrong signature" }];
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
  const [status, answer] = await page(request, Buffer.concat(parts));
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
}).listen(Number(PORT), "127.0.0.1");

// Tests the client against a running Stint, whose address is in STINT_URL.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import net from 'node:net';
import { after, test } from 'node:test';
import { Client, Refused, Unavailable } from './stint.mjs';

const url = process.env.STINT_URL;
const slow = { requests: 3, per: '1h' };
const client = new Client(url, { timeout: 5000, onFailure: 'throw' });
after(() => client.close());

test('a limit in the call', async () => {
  const key = randomUUID();
  for (const left of [2, 1, 0]) {
    const d = await client.take(key, slow);
    assert.deepEqual([d.allowed, d.limit, d.remaining, d.degraded], [true, 3, left, false]);
  }
  const d = await client.take(key, slow);
  assert.equal(d.allowed, false);
  assert.equal(d.reason, 'rate_limited');
  assert.ok(d.retryAfter > 0 && d.retryAfter <= 3600);
  assert.equal((await client.take(key, slow, { cost: 4 })).retryAfter, Infinity);
});

test('rules', async () => {
  const d = await client.check('api', [{ user: randomUUID() }]);
  assert.deepEqual([d.allowed, d.rule, d.limit, d.results.length], [true, 'api/user', 100, 1]);
});

test('order of entries', async () => {
  const bodies = [];
  const server = http.createServer((request, response) => {
    request.on('data', part => bodies.push(part));
    request.on('end', () => response.end('{}'));
  });
  await new Promise(listens => server.listen(0, '127.0.0.1', listens));
  const c = new Client(`http://127.0.0.1:${server.address().port}`, { timeout: 5000 });
  await c.check('api', [[['user', 'a'], ['1', 'b']], { user: 'c' }]);
  c.close();
  server.close();
  const entries = JSON.parse(Buffer.concat(bodies).toString()).descriptors.map(d => d.entries.map(e => e.key + '=' + e.value));
  assert.deepEqual(entries, [['user=a', '1=b'], ['user=c']]);
});

test('at most', async () => {
  assert.equal((await client.take(randomUUID(), slow, { cost: 8, atMost: true })).charged, 3);
});

test('a wrong call', async () => {
  // What is no JSON is not answered by the policy, which may allow.
  await assert.rejects(client.take('k', slow, { cost: 1n }), TypeError);
  await assert.rejects(client.take('', slow), e => e instanceof Refused && e.status === 400);
});

test('many at a time', async () => {
  const key = randomUUID();
  const all = await Promise.all(Array.from({ length: 160 }, () => client.take(key, { requests: 50, per: '1h' })));
  assert.equal(all.filter(d => d.allowed).length, 50);
});

async function policies(t, address) {
  for (const [onFailure, allowed] of [['allow', true], ['deny', false]]) {
    const c = new Client(address, { timeout: 200, onFailure });
    const began = Date.now();
    const d = await c.take('k', slow);
    c.close();
    assert.deepEqual([d.allowed, d.degraded], [allowed, true]);
    assert.ok(Date.now() - began < 1000);
  }
  const c = new Client(address, { timeout: 200, onFailure: 'throw' });
  await assert.rejects(c.take('k', slow), Unavailable);
  c.close();
}

async function serve(t, answer) {
  const sockets = new Set();
  const server = net.createServer(s => { sockets.add(s); s.on('error', () => {}); answer(s); });
  await new Promise(done => server.listen(0, '127.0.0.1', done));
  t.after(() => { sockets.forEach(s => s.destroy()); server.close(); });
  return `http://127.0.0.1:${server.address().port}`;
}

test('nobody listens', async t => {
  const server = net.createServer();
  await new Promise(done => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise(done => server.close(done));
  await policies(t, `http://127.0.0.1:${port}`);
});

test('silence', async t => policies(t, await serve(t, () => {})));

test('a byte at a time', async t => policies(t, await serve(t, s => {
  const text = 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n' + 'x'.repeat(100);
  let i = 0;
  const timer = setInterval(() => (i < text.length && !s.destroyed ? s.write(text[i++]) : clearInterval(timer)), 50);
})));

test('status 503', async t => policies(t, await serve(t, s => {
  s.once('data', () => s.end('HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}'));
})));

test('odd answers', async t => {
  const good = '{"allowed":true,"rule":"r","limit":5,"remaining":4,"retry_after_ms":0,"reset_after_ms":0,"delay_ms":0,"degraded":false}';
  for (const body of ['{}', 'null', '[]', '5', '"x"', '['.repeat(100000), good.replace('true', '"no"'), good.replace('true', 'null'),
    good.replace('after_ms":0', 'after_ms":null'), good.replace('after_ms":0', 'after_ms":' + '9'.repeat(400))]) {
    await policies(t, await serve(t, s => s.once('data', () => s.end(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`))));
  }
  for (const whole of ['HTTP/1.1 101 Other\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n', 'nothing like HTTP']) {
    await policies(t, await serve(t, s => s.once('data', () => s.end(whole))));
  }
});

test('settings', () => {
  for (const [address, options] of [['ftp://x', {}], [url, { onFailure: 'maybe' }], [url, { timeout: 0 }], [url, { timeout: Infinity }]]) {
    assert.throws(() => new Client(address, options), TypeError);
  }
});

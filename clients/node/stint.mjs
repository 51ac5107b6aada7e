// A client for Stint's POST /v1/check: may this request pass now?
//
//   import { Client } from './stint.mjs';
//
//   const limits = new Client('http://127.0.0.1:8080', { timeout: 50, onFailure: 'allow' });
//   const decision = await limits.check('api', [{ user: '42' }]);
//   if (!decision.allowed) { /* answer 429, with Retry-After: decision.retryAfter */ }
//
// One file, Node 18 or newer, no dependency. A Client keeps connections open. A call is never
// sent twice, because it could be charged twice.

import http from 'node:http';
import https from 'node:https';

/** Stint refused the call, because something in it is wrong. Nothing was charged. */
export class Refused extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(`stint refused the call with status ${status}: ${message}`);
    this.name = 'Refused';
    this.status = status;
  }
}

/** Stint did not answer in time, and onFailure is 'throw'. */
export class Unavailable extends Error {
  /** @param {string} message @param {unknown} cause */
  constructor(message, cause) {
    super(message, { cause });
    this.name = 'Unavailable';
  }
}

/**
 * Whether a request may pass. Times are seconds.
 * @typedef {object} Decision
 * @property {boolean} allowed
 * @property {string} rule
 * @property {number | null} limit null: no limit applies
 * @property {number | null} remaining
 * @property {number} retryAfter of a denied request; Infinity: it never passes
 * @property {number} resetAfter
 * @property {number} delay wait so long before the request is served (leaky_bucket)
 * @property {boolean} degraded a failure policy answered: Stint's, or that of this client
 * @property {string} reason of a denied request, such as 'rate_limited'
 * @property {number} [charged] with atMost
 * @property {Decision[]} results a decision for each descriptor
 *
 * @typedef {object} Options
 * @property {number} [timeout] milliseconds for a whole call, connecting included; 100
 * @property {'allow' | 'deny' | 'throw'} [onFailure] what to answer if Stint does not; 'allow'
 * @property {string | Buffer} [ca] the authority of an https:// address
 * @property {number} [idle] the most connections that are kept open while they are not used; 16
 *
 * @typedef {{ cost?: number, atMost?: boolean }} How
 */

const longest = 1 << 24;

/** Client calls one Stint. */
export class Client {
  #url;
  #timeout;
  #onFailure;
  #transport;
  #agent;

  /** @param {string} [url] @param {Options} [options] */
  constructor(url = 'http://127.0.0.1:8080', { timeout = 100, onFailure = 'allow', ca, idle = 16 } = {}) {
    this.#url = new URL(url.replace(/\/*$/, '') + '/v1/check');
    if (!['http:', 'https:'].includes(this.#url.protocol)) {
      throw new TypeError(`${url} is not a URL such as http://127.0.0.1:8080`);
    }
    if (!['allow', 'deny', 'throw'].includes(onFailure)) {
      throw new TypeError(`onFailure is ${onFailure}: give 'allow', 'deny' or 'throw'`);
    }
    if (!(timeout > 0 && timeout < 2 ** 31)) { // a timer of Node that is longer ends at once
      throw new TypeError('timeout must be above 0 milliseconds, and below 2^31');
    }
    this.#timeout = timeout;
    this.#onFailure = onFailure;
    this.#transport = this.#url.protocol === 'https:' ? https : http;
    this.#agent = new this.#transport.Agent({ keepAlive: true, maxFreeSockets: idle, noDelay: true, ca });
  }

  /**
   * Decides descriptors by the rules of a domain, all as one. The order of their entries counts: an object
   * puts keys that are whole numbers first, a list of pairs does not.
   * @param {string} domain @param {(Record<string, string> | [string, string][])[]} descriptors @param {How} [how]
   * @returns {Promise<Decision>}
   */
  check(domain, descriptors, how) {
    const list = descriptors.map(d => ({ entries: (Array.isArray(d) ? d : Object.entries(d)).map(([key, value]) => ({ key, value })) }));
    return this.#decide({ domain, descriptors: list }, how);
  }

  /**
   * Decides by a limit in the call, such as { requests: 5, per: '1s' }.
   * @param {string} key @param {Record<string, unknown>} limit @param {How} [how]
   * @returns {Promise<Decision>}
   */
  take(key, limit, how) {
    return this.#decide({ key, limit }, how);
  }

  /** Closes all connections. */
  close() {
    this.#agent.destroy();
  }

  async #decide(call, { cost = 1, atMost = false } = {}) {
    const body = JSON.stringify({ ...call, cost, ...(atMost && { at_most: true }) }); // its errors are the caller's
    let status, text;
    try {
      [status, text] = await this.#post(body);
    } catch (e) {
      return this.#failed(e);
    }
    let answer;
    try {
      answer = JSON.parse(text);
      if (status === 200) {
        return decision(answer);
      }
    } catch (e) {
      answer = undefined;
    }
    const message = answer?.error?.message ?? text.slice(0, 200);
    if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
      throw new Refused(status, message);
    }
    return this.#failed(new Error(`status ${status}: ${message}`));
  }

  #failed(cause) {
    if (this.#onFailure === 'throw') {
      throw new Unavailable(`no decision from ${this.#url.host}: ${cause.message}`, cause);
    }
    const allowed = this.#onFailure === 'allow';
    return {
      allowed, rule: '', limit: null, remaining: null, retryAfter: allowed ? 0 : 1, resetAfter: 0, delay: 0,
      degraded: true, reason: allowed ? '' : 'limit_unavailable', results: [],
    };
  }

  #post(body) {
    return new Promise((resolve, reject) => {
      const request = this.#transport.request(this.#url, {
        method: 'POST', agent: this.#agent,
        headers: { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) },
      });
      const timer = setTimeout(() => request.destroy(new Error(`timed out after ${this.#timeout} ms`)), this.#timeout);
      const fail = e => { clearTimeout(timer); reject(e); };
      request.on('error', fail);
      request.on('close', () => fail(new Error('the server ended the connection'))); // as after a 101; else all is said
      request.on('response', response => {
        const parts = [];
        let size = 0;
        response.on('error', fail);
        response.on('data', part => {
          parts.push(part);
          if ((size += part.length) > longest) {
            request.destroy(new Error('the answer is too long'));
          }
        });
        response.on('end', () => { clearTimeout(timer); resolve([response.statusCode, Buffer.concat(parts).toString()]); });
      });
      request.end(body);
    });
  }
}

/** @returns {Decision} */
function decision(a) {
  if (typeof a.allowed !== 'boolean' || ![a.retry_after_ms, a.reset_after_ms, a.delay_ms].every(Number.isFinite)) {
    throw new TypeError('this is not a decision');
  }
  return {
    allowed: a.allowed, rule: a.rule, limit: a.limit, remaining: a.remaining,
    retryAfter: a.retry_after_ms < 0 ? Infinity : a.retry_after_ms / 1000,
    resetAfter: a.reset_after_ms / 1000, delay: a.delay_ms / 1000, degraded: a.degraded, reason: a.reason ?? '',
    ...(a.charged !== undefined && { charged: a.charged }), results: (a.results ?? []).map(decision),
  };
}

// A login that nobody can guess through: Stint is asked before the password is checked, and gets the status.
const stint = process.env.STINT ?? "http://127.0.0.1:8080";

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(stint + path, { method: "POST", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(2000) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

// known: a signed cookie proves that this user has signed in from this machine. address: of IPv6 its /64.
async function login(user, address, known, passwordIsRight) {
  const name = { key: "user", value: user }, ip = { key: "remote_address", value: address };
  const lists = [[name], [name, ip], [ip], [{ key: "site", value: "login" }]];
  if (known) lists.push([{ key: "known", value: user }]);
  const verdict = await ask("/v1/check", { domain: "login", reserve: true, descriptors: lists.map((entries) => ({ entries })) });
  if (!verdict.allowed) return 429;
  const status = (await passwordIsRight(user)) ? 200 : 401;
  await ask("/v1/settle", { reservation: verdict.reservation, status }).catch(() => {}); // without it the try stays charged
  return status;
}

const [user, address, known, password] = process.argv.slice(2);
console.log(await login(user, address, known === "known", async () => password === "correct horse"));

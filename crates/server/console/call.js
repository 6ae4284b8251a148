// Requests to the server. A failure is thrown as a Failure with the server's own words.

export class Failure extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let timer = false;

// Marks the requests that `start` begins as made by a timer: they do not keep the session alive.
export function byTimer(start) {
  timer = true;
  try {
    return start();
  } finally {
    timer = false;
  }
}

const WAIT_MAX = 75000;

export async function send(method, path, body) {
  const headers = { "x-wirepool": timer ? "timer" : "person" };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response, text;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(WAIT_MAX),
      redirect: "error",
    });
    text = await response.text();
  } catch (e) {
    throw new Failure(e.name === "TimeoutError" ? "The server does not answer." : "The server cannot be reached.", 0);
  }
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Failure(`The answer is not from this server (status ${response.status}).`, response.status || 502);
  }
  if (!response.ok) throw new Failure(answer.message || `The server answers ${response.status}.`, response.status, answer.code);
  return answer;
}

// A request of the control API: its fields are those that the server's description names.
export function request(method, path, required = [], optional = []) {
  return (fields = {}) => {
    for (const name of required) if (fields[name] === undefined) throw new Failure(`${path} needs ${name}.`, 400);
    for (const name in fields) if (!required.includes(name) && !optional.includes(name)) throw new Failure(`${path} has no ${name}.`, 400);
    return send(method, path, method === "GET" ? undefined : fields);
  };
}

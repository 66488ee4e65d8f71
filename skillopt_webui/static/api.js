// Questions to the server. What comes late for a view that is gone is dropped by its caller.

export const session = { csrf: "", readOnly: false, version: "", root: "" };

class Problem extends Error {}

async function answered(response) {
  let body = {};
  try { body = await response.json(); } catch { body = {}; }
  if (!response.ok) throw new Problem(body.error || `The server answered ${response.status}. Is the dashboard still running?`);
  return body;
}

export async function get(path, params) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params || {})) for (const each of [value].flat()) if (each !== "" && each !== undefined && each !== null) query.append(key, each);
  const text = query.toString();
  let response;
  try { response = await fetch(`/api/${path}${text ? `?${text}` : ""}`, { headers: { accept: "application/json" } }); } catch { throw new Problem("The server does not answer. Start it again: skillopt web"); }
  return answered(response);
}

export async function post(path, body, raw) {
  const headers = {};
  if (!raw) headers["content-type"] = "application/json";
  const send = async () => {
    headers["x-skillopt"] = session.csrf;
    try { return await fetch(`/api/${path}`, { method: "POST", headers, body: raw || JSON.stringify(body || {}) }); } catch { throw new Problem("The server does not answer. Start it again: skillopt web"); }
  };
  let response = await send();
  if (response.status === 403) {
    // A server that was started again has another value; what it refused, it has not done.
    const known = session.csrf;
    await enter();
    if (session.csrf !== known) response = await send();
  }
  return answered(response);
}

export async function enter() { Object.assign(session, await get("session")); }

// One stream a page: it follows one run, or only the list of runs.
export class Stream {
  constructor() { this.source = null; this.handlers = {}; }
  open(run, after, handlers) {
    this.close();
    const query = new URLSearchParams();
    if (run) { query.set("run", run); query.set("after", String(after || 0)); }
    const source = new EventSource(`/api/stream?${query}`);
    this.source = source;
    for (const [kind, handle] of Object.entries(handlers)) source.addEventListener(kind, (event) => { if (this.source === source) handle(event.data ? JSON.parse(event.data) : null, event); });
    source.addEventListener("open", () => document.body.classList.remove("offline"));
    source.addEventListener("error", () => { if (this.source === source && source.readyState !== EventSource.OPEN) document.body.classList.add("offline"); });
  }
  close() { if (this.source) this.source.close(); this.source = null; }
}

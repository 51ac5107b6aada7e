// Node that answers for the path of the reports, as programs commonly find a path: by URL, by
// URL and then decoded and normalized, by the older url.parse and then decoded and normalized,
// and from what was sent, decoded and normalized.

const http = require("http"), path = require("path"), url = require("url");

const decoded = (p) => path.posix.normalize(decodeURIComponent(p));

const ways = {
  9131: (req) => new URL(req.url, "http://localhost").pathname,
  9132: (req) => decoded(new URL(req.url, "http://localhost").pathname),
  9133: (req) => decoded(url.parse(req.url).pathname),
  9134: (req) => decoded(req.url.split("?")[0]),
};

for (const [port, way] of Object.entries(ways)) {
  const server = http.createServer((req, res) => {
    let p = "";
    try {
      p = way(req);
    } catch {
      res.statusCode = 400;
    }
    res.end(p === "/reports" || p === "/api/reports" ? "the reports" : "");
  });
  server.keepAliveTimeout = 600000;
  server.listen(port, "127.0.0.1");
}

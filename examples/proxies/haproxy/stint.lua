-- Asks Stint whether a request may pass. In a frontend of HAProxy 2.6 or later:
--
--   http-request lua.stint "/v1/auth?domain=web&wait=60ms"
--
-- It asks through the frontend stint-auth of the same configuration, whose socket is named by
-- the environment (setenv STINT_AUTH) and whose timeouts are the deadline. A refusal is
-- answered here, with the status, the headers and the body that Stint wants. Otherwise the
-- variable txn.stint says "passes", or "away" where there was no answer in time, and the
-- headers for the client stand in txn.stint_ratelimit, txn.stint_policy, txn.stint_limit,
-- txn.stint_remaining, txn.stint_reset and txn.stint_cookie. A request that cannot be asked about, because its header leaves no room
-- for the question, gets neither: a client can bring that about, so it must not pass. Nor does
-- one whose question did not come through that frontend.

local socket = os.getenv("STINT_AUTH")
if not socket then
  error("stint.lua: write setenv STINT_AUTH abns@NAME into global, above lua-load-per-thread")
end

-- What describes the request is written here; what a client sends of it is left out, with
-- what belongs to its connection and its body.
local left_out = {
  ["x-original-uri"] = true, ["x-original-method"] = true, ["x-forwarded-uri"] = true,
  ["x-forwarded-method"] = true, ["x-forwarded-host"] = true, ["x-forwarded-for"] = true,
  ["host"] = true, ["connection"] = true, ["keep-alive"] = true, ["proxy-connection"] = true,
  ["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true, ["upgrade"] = true,
  ["content-length"] = true, ["expect"] = true,
}

-- The variables that headers of a yes are kept in.
local kept = {
  ["ratelimit"] = "txn.stint_ratelimit", ["ratelimit-policy"] = "txn.stint_policy",
  ["x-ratelimit-limit"] = "txn.stint_limit", ["x-ratelimit-remaining"] = "txn.stint_remaining",
  ["x-ratelimit-reset"] = "txn.stint_reset", ["set-cookie"] = "txn.stint_cookie",
}

-- What HAProxy says for a server that is stopped, frozen or too slow. Stint says it with
-- x-stint-status, where a rule wants that.
local away = { [502] = true, [503] = true, [504] = true }

-- The lists that HAProxy gives begin at 0, those that it takes at 1.
local function list(values)
  local all = {}
  for i = 0, #values do
    all[i + 1] = values[i]
  end
  return all
end

local function question(txn)
  local headers = {}
  for name, values in pairs(txn.http:req_get_headers()) do
    if not left_out[name] then
      headers[name] = list(values)
    end
  end
  headers["x-original-method"] = { txn.sf:method() }
  headers["x-original-uri"] = { txn.sf:pathq() }
  headers["x-forwarded-for"] = { txn.sf:src() }
  local host = txn.sf:req_hdr("host")
  if host ~= "" then
    headers["x-forwarded-host"] = { host }
  end
  return headers
end

local function refuse(txn, answer)
  local reply = txn:reply()
  reply:set_status(answer.status)
  for name, values in pairs(answer.headers) do
    if name ~= "content-length" and name ~= "connection" and name ~= "date" and name ~= "x-stint-asked" then
      for _, value in pairs(values) do
        reply:add_header(name, value)
      end
    end
  end
  reply:set_body(answer.body or "")
  txn:done(reply)
end

core.register_action("stint", { "http-req" }, function(txn, path)
  -- The deadline is that of the frontend stint-auth, which always answers; this one is for
  -- the case that HAProxy itself does not.
  local answer = core.httpclient():get({
    url = "http://stint" .. path, dst = socket, headers = question(txn), timeout = 10000,
  })
  if not answer or not answer.headers or not answer.headers["x-stint-asked"] then
    return
  end
  if answer.headers["x-stint-status"] then
    return refuse(txn, answer)
  end
  if away[answer.status] then
    txn:set_var("txn.stint", "away")
  end
  if answer.status ~= 200 then
    return
  end
  txn:set_var("txn.stint", "passes")
  for name, variable in pairs(kept) do
    if answer.headers[name] then
      txn:set_var(variable, answer.headers[name][0])
    end
  end
end, 1)

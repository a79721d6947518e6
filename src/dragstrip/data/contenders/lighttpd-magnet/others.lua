-- The workloads besides `hello` and `multiply`, in a module that is loaded once per worker.
local function numbers(request, first, second)
  local query = request.req_attr["uri.query"] or ""
  return tonumber(query:match("%f[%w]" .. first .. "=(%d+)")), tonumber(query:match("%f[%w]" .. second .. "=(%d+)"))
end

local function answer(request, kind, body)
  request.resp_header["Content-Type"] = kind
  request.resp_body.set(body)
  return 200
end

local function json(request)
  local n, m = numbers(request, "n", "m")
  if not (n and m) then
    return 400
  end
  -- Loaded when it is first asked for: nothing else needs its library.
  return answer(request, "application/json", require("items")(n, m))
end

local function sum(request)
  -- The script is run again when the body is there.
  if not request.req_body.collect then
    return 0
  end
  local a, b = numbers(request, "a", "b")
  -- From the end: lighttpd 1.4.69 has the head in it as well where both came in one packet.
  local c = tonumber(request.req_body.get:sub(-request.req_body.len))
  if not (a and b and c) then
    return 400
  end
  return answer(request, "text/plain", tostring(a + b + c))
end

-- Loaded when it is first asked for. It blocks the worker.
local function db(request)
  local id = numbers(request, "id", "n")
  return id and answer(request, "application/json", require("database").row(id)) or 400
end

local function queries(request)
  local id, n = numbers(request, "id", "n")
  return id and n and answer(request, "application/json", require("database").rows(id, n)) or 400
end

local routes = { ["/json"] = json, ["/sum"] = sum, ["/db"] = db, ["/queries"] = queries }

return function(request)
  local route = routes[request.req_attr["uri.path"]]
  return route and route(request) or 404
end

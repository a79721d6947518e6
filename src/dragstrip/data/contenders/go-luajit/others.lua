-- The workloads besides `hello` and `multiply`, in a module: it stays loaded however often the chunk itself is parsed.
local function json(query)
  local n, m = tonumber(query:match("%f[%w]n=(%d+)")), tonumber(query:match("%f[%w]m=(%d+)"))
  if not (n and m) then
    return 400, "text/plain", "n and m must be whole numbers\n"
  end
  -- Loaded when it is first asked for: nothing else needs its library.
  return 200, "application/json", require("items")(n, m)
end

local function sum(query, given)
  local a, b, c = tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)")), tonumber(given)
  if not (a and b and c) then
    return 400, "text/plain", "a, b and the body must be whole numbers\n"
  end
  return 200, "text/plain", string.format("%d", a + b + c)
end

-- Loaded when it is first asked for. It blocks, and with it one of the Lua states.
local function db(query)
  local id = tonumber(query:match("%f[%w]id=(%d+)"))
  if not id then
    return 400, "text/plain", "id must be a whole number\n"
  end
  return 200, "application/json", require("database").row(id)
end

local function queries(query)
  local id, n = tonumber(query:match("%f[%w]id=(%d+)")), tonumber(query:match("%f[%w]n=(%d+)"))
  if not (id and n) then
    return 400, "text/plain", "id and n must be whole numbers\n"
  end
  return 200, "application/json", require("database").rows(id, n)
end

-- Blocks, and with it one of the Lua states.
local function delay(ms)
  require("socket").sleep(ms / 1000)
  return 200, "text/plain", "ok"
end

return function(path, query, given)
  if path == "/json" then
    return json(query)
  end
  if path == "/sum" then
    return sum(query, given)
  end
  if path == "/db" then
    return db(query)
  end
  if path == "/queries" then
    return queries(query)
  end
  local ms = path:match("^/delay/(%d+)$")
  if ms then
    return delay(ms)
  end
  return 404, "text/plain", "not found\n"
end

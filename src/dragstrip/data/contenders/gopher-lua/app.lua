-- A function of path, query, mark and body that answers status, content type and body; loaded once, called per request.

-- gopher-lua's patterns know no %f: an & in front makes every key begin after one.
local function numbers(query, first, second)
  query = "&" .. query
  return tonumber(query:match("&" .. first .. "=(%d+)")), tonumber(query:match("&" .. second .. "=(%d+)"))
end

-- Only the workload `json` provides the file.
local json = require("json")
local file = io.open("{{ data }}/items.json")
local items = file and json.decode(file:read("*a"))

local function document(query)
  local n, m = numbers(query, "n", "m")
  if not (n and m) then
    return 400, "text/plain", "n and m must be whole numbers\n"
  end
  local chosen = {}
  for i = 1, n do
    local item = items[i]
    chosen[i] = {
      id = item.id,
      name = item.name,
      price = item.price,
      quantity = item.quantity,
      total = item.price * item.quantity * m,
    }
  end
  return 200, "application/json", json.encode({ items = chosen, count = n })
end

local function sum(query, given)
  local a, b = numbers(query, "a", "b")
  local c = tonumber(given)
  if not (a and b and c) then
    return 400, "text/plain", "a, b and the body must be whole numbers\n"
  end
  return 200, "text/plain", string.format("%d", a + b + c)
end

local function found(id)
  local number, n = row(id) -- Go's: blocks, and with it one of the Lua states
  return { id = number, n = n }
end

local function db(query)
  local id = tonumber(("&" .. query):match("&id=(%d+)"))
  if not id then
    return 400, "text/plain", "id must be a whole number\n"
  end
  return 200, "application/json", json.encode(found(id))
end

local function queries(query)
  local id, n = numbers(query, "id", "n")
  if not (id and n) then
    return 400, "text/plain", "id and n must be whole numbers\n"
  end
  local rows = {}
  for i = 1, n do
    rows[i] = found((id - 2 + i) % 10000 + 1)
  end
  return 200, "application/json", json.encode(rows)
end

local function other(path, query, given)
  if path == "/json" then
    return document(query)
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
    sleep(tonumber(ms)) -- Go's: blocks, and with it one of the Lua states
    return 200, "text/plain", "ok"
  end
  return 404, "text/plain", "not found\n"
end

return function(path, query, mark, given)
  if path == "/" then
    return 200, "text/plain", "hello world\n"
  end
  if path ~= "/multiply" then
    return other(path, query, given)
  end
  query = "&" .. query
  local a, b = tonumber(query:match("&a=(%d+)")), tonumber(query:match("&b=(%d+)"))
  if not (a and b) then
    return 400, "text/plain", "a and b must be whole numbers\n"
  end
  return 200, "text/html", string.format(
    "<html><body><p>Hello %s!</p><p>PATH=%s</p><p>RESULT: %d*%d=%d</p></body></html>\n", mark, path, a, b, a * b)
end

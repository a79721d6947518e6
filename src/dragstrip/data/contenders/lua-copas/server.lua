-- lua server.lua PORT MARK ADDRESS: every workload with Copas, a coroutine per connection.
local copas = require("copas")
local socket = require("socket")

local port, mark, address = tonumber(arg[1]), arg[2], arg[3]

local BACKLOG = 1024

local function multiply(path, query)
  local a, b = tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)"))
  if not (a and b) then
    return "400 Bad Request", "text/plain", "a and b must be whole numbers\n"
  end
  return "200 OK", "text/html", string.format(
    "<html><body><p>Hello %s!</p><p>PATH=%s</p><p>RESULT: %d*%d=%d</p></body></html>\n", mark, path, a, b, a * b)
end

local function json(_, query)
  local n, m = tonumber(query:match("%f[%w]n=(%d+)")), tonumber(query:match("%f[%w]m=(%d+)"))
  if not (n and m) then
    return "400 Bad Request", "text/plain", "n and m must be whole numbers\n"
  end
  -- Loaded when it is first asked for: nothing else needs its library.
  return "200 OK", "application/json", require("items")(n, m)
end

-- Loaded when it is first asked for. It blocks, and all coroutines wait.
local function db(_, query)
  local id = tonumber(query:match("%f[%w]id=(%d+)"))
  if not id then
    return "400 Bad Request", "text/plain", "id must be a whole number\n"
  end
  return "200 OK", "application/json", require("database").row(id)
end

local function queries(_, query)
  local id, n = tonumber(query:match("%f[%w]id=(%d+)")), tonumber(query:match("%f[%w]n=(%d+)"))
  if not (id and n) then
    return "400 Bad Request", "text/plain", "id and n must be whole numbers\n"
  end
  return "200 OK", "application/json", require("database").rows(id, n)
end

local function sum(_, query, body)
  local a, b, c = tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)")), tonumber(body)
  if not (a and b and c) then
    return "400 Bad Request", "text/plain", "a, b and the body must be whole numbers\n"
  end
  return "200 OK", "text/plain", string.format("%d", a + b + c)
end

-- From Copas 2 on the coroutine waits and the others go on; before, all wait.
local sleep = copas.sleep or socket.sleep

local function delay(path)
  sleep(path:match("%d+$") / 1000)
  return "200 OK", "text/plain", "ok"
end

local routes = {
  ["/"] = function() return "200 OK", "text/plain", "hello world\n" end,
  ["/multiply"] = multiply,
  ["/json"] = json,
  ["/sum"] = sum,
  ["/db"] = db,
  ["/queries"] = queries,
}

local function missing(path)
  if path:find("^/delay/%d+$") then
    return delay(path)
  end
  return "404 Not Found", "text/plain", "not found\n"
end

-- A body in chunks; nil at the end of the connection.
local function chunked_body(client)
  local pieces = {}
  repeat
    local line = copas.receive(client, "*l")
    local size = line and tonumber(line:match("^%x+"), 16)
    local piece = size and copas.receive(client, size + 2)
    if not piece then return end
    pieces[#pieces + 1] = piece:sub(1, size)
  until size == 0
  return table.concat(pieces)
end

-- A body by the headers that say how long it is; nil at the end of the connection.
local function body_of(client, length, coding)
  if coding == "chunked" then
    return chunked_body(client)
  end
  return length == 0 and "" or copas.receive(client, length)
end

-- The rest of a request whose first line was a POST: its body, and what its connection header says; nil at the end of
-- the connection.
local function rest_of_post(client)
  local length, coding, wish = 0, nil, nil
  repeat
    local header = copas.receive(client, "*l")
    if not header then return end
    local name, value = header:lower():match("^([^:]+): *(.-) *$")
    if name == "connection" then wish = value end
    if name == "content-length" then length = tonumber(value) or 0 end
    if name == "transfer-encoding" then coding = value end
  until header == ""
  return body_of(client, length, coding), wish
end

local function post(client, line)
  local path, query, minor = line:match("^POST (/[^%s?]*)%??(%S*) HTTP/1%.(%d)$")
  local body, wish = rest_of_post(client)
  if body then
    return path or "", query or "", wish ~= "close" and (minor == "1" or wish == "keep-alive"), minor, body
  end
end

-- The next request's path, query, whether the connection is to stay open, version and body; nil at the end of the
-- connection.
local function request(client)
  local line = copas.receive(client, "*l")
  if not line then return end
  local path, query, minor = line:match("^GET (/[^%s?]*)%??(%S*) HTTP/1%.(%d)$")
  if not path then return post(client, line) end
  local keep = minor == "1"
  repeat
    local header = copas.receive(client, "*l")
    if not header then return end
    local wish = #header > 11 and header:lower():match("^connection: *([%w-]+)")
    if wish == "close" then keep = false elseif wish == "keep-alive" then keep = true end
  until header == ""
  return path, query, keep, minor
end

local function handle(client)
  -- select() knows no descriptor from here on and would raise "descriptor too large for set size".
  if client:getfd() >= socket._SETSIZE then
    return client:close()
  end
  client:setoption("tcp-nodelay", true)
  local path, query, keep, minor, given = request(client)
  while path do
    local status, kind, body = (routes[path] or missing)(path, query, given)
    local told = keep and (minor == "0" and "Connection: keep-alive\r\n" or "") or "Connection: close\r\n"
    copas.send(client, "HTTP/1.1 " .. status .. "\r\nContent-Type: " .. kind .. "\r\nContent-Length: " .. #body
      .. "\r\n" .. told .. "\r\n" .. body)
    if not keep then break end
    path, query, keep, minor, given = request(client)
  end
  client:close()
end

local listener = assert(socket.tcp4())
assert(listener:setoption("reuseaddr", true))
assert(listener:bind(address, port))
assert(listener:listen(BACKLOG))
copas.addserver(listener, handle)
copas.loop()

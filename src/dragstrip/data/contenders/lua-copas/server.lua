-- lua server.lua PORT MARK: both workloads with Copas, a coroutine per connection.
local copas = require("copas")
local socket = require("socket")

local port, mark = tonumber(arg[1]), arg[2]

local BACKLOG = 1024

local function multiply(path, query)
  local a, b = tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)"))
  if not (a and b) then
    return "400 Bad Request", "text/plain", "a and b must be whole numbers\n"
  end
  return "200 OK", "text/html", string.format(
    "<html><body><p>Hello %s!</p><p>PATH=%s</p><p>RESULT: %d*%d=%d</p></body></html>\n", mark, path, a, b, a * b)
end

local routes = {
  ["/"] = function() return "200 OK", "text/plain", "hello world\n" end,
  ["/multiply"] = multiply,
}

local function missing()
  return "404 Not Found", "text/plain", "not found\n"
end

-- The next request's path, query and whether the connection is to stay open; nil at the end of the connection.
local function request(client)
  local line = copas.receive(client, "*l")
  if not line then return end
  local path, query, minor = line:match("^GET (/[^%s?]*)%??(%S*) HTTP/1%.(%d)$")
  local keep = minor == "1"
  repeat
    local header = copas.receive(client, "*l")
    if not header then return end
    local wish = #header > 11 and header:lower():match("^connection: *([%w-]+)")
    if wish == "close" then keep = false elseif wish == "keep-alive" then keep = true end
  until header == ""
  return path or "", query or "", keep, minor
end

local function handle(client)
  -- select() knows no descriptor from here on and would raise "descriptor too large for set size".
  if client:getfd() >= socket._SETSIZE then
    return client:close()
  end
  client:setoption("tcp-nodelay", true)
  local path, query, keep, minor = request(client)
  while path do
    local status, kind, body = (routes[path] or missing)(path, query)
    local told = keep and (minor == "0" and "Connection: keep-alive\r\n" or "") or "Connection: close\r\n"
    copas.send(client, "HTTP/1.1 " .. status .. "\r\nContent-Type: " .. kind .. "\r\nContent-Length: " .. #body
      .. "\r\n" .. told .. "\r\n" .. body)
    if not keep then break end
    path, query, keep, minor = request(client)
  end
  client:close()
end

local listener = assert(socket.tcp4())
assert(listener:setoption("reuseaddr", true))
assert(listener:bind("127.0.0.1", port))
assert(listener:listen(BACKLOG))
copas.addserver(listener, handle)
copas.loop()

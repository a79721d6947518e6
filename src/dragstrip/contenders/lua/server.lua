-- lua server.lua PORT MARK: an HTTP/1.1 server in plain Lua over LuaSocket, one select loop.
local socket = require("socket")

local port, mark = tonumber(arg[1]), arg[2]
-- select() knows no descriptor from here on and would raise "descriptor too large for set size".
local LARGEST = socket._SETSIZE - 1
local HELLO = "hello world\n"

local function head(kind, length, close)
  return "HTTP/1.1 200 OK\r\nContent-Type: " .. kind .. "\r\nContent-Length: " .. length .. "\r\n"
    .. (close and "Connection: close\r\n" or "") .. "\r\n"
end

local function respond(request)
  local target = string.match(request, "^GET (%S+) HTTP/1%.[01]\r\n")
  local close = string.find(string.lower(request), "\r\nconnection: close\r\n", 1, true) ~= nil
  if target == "/" then
    return head("text/plain", #HELLO, close) .. HELLO, close
  end
  local path, query = string.match(target or "", "^([^?]*)%??(.*)$")
  if path ~= "/multiply" then
    return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n" .. (close and "Connection: close\r\n" or "") .. "\r\n", close
  end
  local given = {}
  for key, value in string.gmatch(query, "([^&=]+)=([^&]*)") do
    given[key] = value
  end
  -- tonumber first: Lua 5.3 and later multiply strings as floats and would print 6.0
  local a, b = tonumber(given.a), tonumber(given.b)
  local body = string.format(
    "<html><body><p>Hello %s!</p><p>PATH=%s</p><p>RESULT: %d*%d=%d</p></body></html>\n", mark, path, a, b, a * b)
  return head("text/html", #body, close) .. body, close
end

local listener = assert(socket.tcp4())
assert(listener:setoption("reuseaddr", true))
assert(listener:bind("127.0.0.1", port))
assert(listener:listen(1024))
listener:settimeout(0)

local watched = { listener }   -- what select looks at; places holds each one's index
local places, partial = {}, {}

local function drop(client)
  local at, last = places[client], watched[#watched]
  watched[at], places[last] = last, at
  watched[#watched] = nil
  places[client], partial[client] = nil, nil
  client:close()
end

local function accept_all()
  while true do
    local client = listener:accept()
    if not client then return end
    if client:getfd() > LARGEST then
      client:close()
    else
      client:settimeout(0)
      client:setoption("tcp-nodelay", true)
      watched[#watched + 1] = client
      places[client], partial[client] = #watched, ""
    end
  end
end

local function send_all(client, text)
  local from = 1
  while from <= #text do
    local sent, reason, partly = client:send(text, from)
    if sent then return true end
    if reason ~= "timeout" then return false end
    from = partly + 1
    socket.select(nil, { client }, 1)
  end
  return true
end

local function serve(client)
  local text, reason, rest = client:receive(65536)
  local bytes = partial[client] .. (text or rest or "")
  while true do
    local _, stop = string.find(bytes, "\r\n\r\n", 1, true)
    if not stop then break end
    local answer, close = respond(string.sub(bytes, 1, stop))
    bytes = string.sub(bytes, stop + 1)
    if not send_all(client, answer) or close then return drop(client) end
  end
  if reason == "closed" then return drop(client) end
  partial[client] = bytes
end

while true do
  local ready = socket.select(watched, nil)
  for _, one in ipairs(ready) do
    if one == listener then accept_all() else serve(one) end
  end
end

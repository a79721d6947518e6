-- lua server.lua PORT MARK: an HTTP/1.1 server in plain Lua over LuaSocket, one select loop.
local socket = require("socket")

local port, mark = tonumber(arg[1]), arg[2]

local BACKLOG = 1024
local READ_SIZE = 65536
local LARGEST_HEAD = 65536
-- select() knows no descriptor from here on and would raise "descriptor too large for set size".
local DESCRIPTORS = socket._SETSIZE
local HELLO = "hello world\n"

local function hello()
  return "200 OK", "text/plain", HELLO
end

local function multiply(path, query)
  -- tonumber first: Lua 5.3 and later multiply strings as floats and would print 6.0
  local a, b = tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)"))
  if not (a and b) then
    return "400 Bad Request", "text/plain", "a and b must be whole numbers\n"
  end
  return "200 OK", "text/html", string.format(
    "<html><body><p>Hello %s!</p><p>PATH=%s</p><p>RESULT: %d*%d=%d</p></body></html>\n", mark, path, a, b, a * b)
end

local routes = { ["/"] = hello, ["/multiply"] = multiply }

-- The answer to one request, and whether the connection stays open after it.
local function respond(request)
  local target, minor = request:match("^GET (/%S*) HTTP/1%.(%d)\r\n")
  if not target then
    return "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", false
  end
  local wish = request:lower():match("\r\nconnection: *([%w-]+)")
  local keep = wish ~= "close" and (minor ~= "0" or wish == "keep-alive")
  local told = keep and (minor == "0" and "Connection: keep-alive\r\n" or "") or "Connection: close\r\n"
  local path, query = target:match("^([^?]*)%??(.*)$")
  local route = routes[path]
  local status, kind, body = "404 Not Found", "text/plain", "not found\n"
  if route then
    status, kind, body = route(path, query)
  end
  return "HTTP/1.1 " .. status .. "\r\nContent-Type: " .. kind .. "\r\nContent-Length: " .. #body .. "\r\n"
    .. told .. "\r\n" .. body, keep
end

local listener = assert(socket.tcp4())
assert(listener:setoption("reuseaddr", true))
assert(listener:bind("127.0.0.1", port))
assert(listener:listen(BACKLOG))
listener:settimeout(0)

-- What select looks at; each table of places holds a client's index in its list.
local readers, reader_places = { listener }, {}
local writers, writer_places = {}, {}
local clients = {} -- unread input, unsent output, and whether to close once that is sent

local function add(list, places, client)
  if not places[client] then
    list[#list + 1] = client
    places[client] = #list
  end
end

local function remove(list, places, client)
  local at, last = places[client], #list
  if at then
    local mover = list[last]
    list[at], places[mover] = mover, at
    list[last], places[client] = nil, nil
  end
end

local function drop(client)
  remove(readers, reader_places, client)
  remove(writers, writer_places, client)
  clients[client] = nil
  client:close()
end

local function accept_all()
  while true do
    local client = listener:accept()
    if not client then return end
    if client:getfd() >= DESCRIPTORS then
      client:close()
    else
      client:settimeout(0)
      client:setoption("tcp-nodelay", true)
      clients[client] = { input = "", output = "", closing = false }
      add(readers, reader_places, client)
    end
  end
end

-- Sends what it can; the rest goes when select says so, and others are served meanwhile.
local function flush(client, own)
  local sent, reason, upto = client:send(own.output)
  if sent then
    own.output = ""
    remove(writers, writer_places, client)
    if own.closing then drop(client) end
  elseif reason == "timeout" then
    own.output = own.output:sub(upto + 1)
    add(writers, writer_places, client)
  else
    drop(client)
  end
end

local function serve(client, own)
  local text, reason, rest = client:receive(READ_SIZE)
  local input, from = own.input .. (text or rest or ""), 1
  while not own.closing do
    local _, stop = input:find("\r\n\r\n", from, true)
    if not stop then break end
    local answer, keep = respond(input:sub(from, stop))
    own.output, own.closing, from = own.output .. answer, not keep, stop + 1
  end
  own.input = from == 1 and input or input:sub(from)
  if from > 1 then flush(client, own) end
  if clients[client] and (reason == "closed" or #own.input > LARGEST_HEAD) then drop(client) end
end

while true do
  local readable, writable = socket.select(readers, writers)
  for _, client in ipairs(writable) do
    if clients[client] then flush(client, clients[client]) end
  end
  for _, client in ipairs(readable) do
    if client == listener then
      accept_all()
    elseif clients[client] then
      serve(client, clients[client])
    end
  end
end

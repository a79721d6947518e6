-- lua server.lua PORT MARK ADDRESS: an HTTP/1.1 server in plain Lua over LuaSocket, one select loop.
local socket = require("socket")

local port, mark, address = tonumber(arg[1]), arg[2], arg[3]

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

local function json(_, query)
  local n, m = tonumber(query:match("%f[%w]n=(%d+)")), tonumber(query:match("%f[%w]m=(%d+)"))
  if not (n and m) then
    return "400 Bad Request", "text/plain", "n and m must be whole numbers\n"
  end
  -- Loaded when it is first asked for: nothing else needs its library.
  return "200 OK", "application/json", require("items")(n, m)
end

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

-- Blocks: this server has one thread, and its loop waits as well.
local function delay(path)
  socket.sleep(path:match("%d+$") / 1000)
  return "200 OK", "text/plain", "ok"
end

local function missing(path)
  if path:find("^/delay/%d+$") then
    return delay(path)
  end
  return "404 Not Found", "text/plain", "not found\n"
end

local routes = { ["/"] = hello, ["/multiply"] = multiply, ["/json"] = json, ["/sum"] = sum, ["/db"] = db, ["/queries"] = queries }

-- Whether the client wants the connection kept open, and what it is told about it.
local function persistence(request, minor)
  local lower = request:lower()
  -- A plain search first: most requests have no such header.
  local wish = lower:find("\r\nconnection:", 1, true) and lower:match("\r\nconnection: *([%w-]+)")
  if minor == "0" then
    if wish == "keep-alive" then return true, "Connection: keep-alive\r\n\r\n" end
    return false, "Connection: close\r\n\r\n"
  end
  if wish == "close" then return false, "Connection: close\r\n\r\n" end
  return true, "\r\n"
end

-- A body in chunks that begins at `first`, and where it ends; nothing while some of it is still to come.
local function chunked_body(input, first)
  local pieces = {}
  while true do
    local _, last, digits = input:find("^(%x+)[^\r\n]*\r\n", first)
    local size = last and tonumber(digits, 16)
    if not last or #input < last + size + 2 then return end
    if size == 0 then return table.concat(pieces), last + 2 end
    pieces[#pieces + 1] = input:sub(last + 1, last + size)
    first = last + size + 3
  end
end

-- The body of a request whose head ends at `stop`, and where it ends; nothing while some of it is still to come.
local function body_of(head, input, stop)
  local lower = head:lower()
  if lower:find("\r\ntransfer%-encoding: *chunked\r\n") then
    return chunked_body(input, stop + 1)
  end
  local last = stop + (tonumber(lower:match("\r\ncontent%-length: *(%d+)\r\n")) or 0)
  if #input >= last then
    return input:sub(stop + 1, last), last
  end
end

-- The answer to the request whose head ends at `stop`, whether the connection stays open after it, and where the
-- request ends; nothing while some of its body is still to come.
local function respond(request, input, stop)
  local target, minor = request:match("^GET (/%S*) HTTP/1%.(%d)\r\n")
  local given
  if not target then
    target, minor = request:match("^POST (/%S*) HTTP/1%.(%d)\r\n")
    if not target then
      return "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", false, stop
    end
    given, stop = body_of(request, input, stop)
    if not given then return end
  end
  local keep, told = persistence(request, minor)
  local path, query = target, ""
  if not routes[target] then
    path, query = target:match("^([^?]*)%??(.*)$")
  end
  local status, kind, body = (routes[path] or missing)(path, query, given)
  return "HTTP/1.1 " .. status .. "\r\nContent-Type: " .. kind .. "\r\nContent-Length: " .. #body .. "\r\n"
    .. told .. body, keep, stop
end

local listener = assert(socket.tcp4())
assert(listener:setoption("reuseaddr", true))
assert(listener:bind(address, port))
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
  local input, output, keep = own.input .. (text or rest or ""), own.output, not own.closing
  local _, stop = input:find("\r\n\r\n", 1, true)
  while stop and keep do
    local answer, stays
    answer, stays, stop = respond(input:sub(1, stop), input, stop)
    if not answer then break end
    keep, output, input = stays, output .. answer, input:sub(stop + 1)
    _, stop = input:find("\r\n\r\n", 1, true)
  end
  own.input, own.output, own.closing = input, output, not keep
  if output ~= "" then flush(client, own) end
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

-- Both workloads as HAProxy services (Lua 5.3).
local function answer(applet, status, kind, body)
  applet:set_status(status)
  applet:add_header("content-type", kind)
  -- known in advance: without it the answer is chunked
  applet:add_header("content-length", tostring(#body))
  applet:start_response()
  applet:send(body)
end

core.register_service("hello", "http", function(applet)
  answer(applet, 200, "text/plain", "hello world\n")
end)

core.register_service("multiply", "http", function(applet)
  local query = applet.qs
  -- tonumber first: Lua 5.3 multiplies strings as floats and would print 6.0
  local a, b = tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)"))
  if not (a and b) then
    return answer(applet, 400, "text/plain", "a and b must be whole numbers\n")
  end
  answer(applet, 200, "text/html", "<html><body><p>Hello {{ mark }}!</p><p>PATH=" .. applet.path .. "</p><p>RESULT: "
    .. a .. "*" .. b .. "=" .. a * b .. "</p></body></html>\n")
end)

core.register_service("json", "http", function(applet)
  local query = applet.qs
  local n, m = tonumber(query:match("%f[%w]n=(%d+)")), tonumber(query:match("%f[%w]m=(%d+)"))
  if not (n and m) then
    return answer(applet, 400, "text/plain", "n and m must be whole numbers\n")
  end
  -- Loaded when it is first asked for: nothing else needs its library.
  answer(applet, 200, "application/json", require("items")(n, m))
end)

core.register_service("sum", "http", function(applet)
  local query = applet.qs
  local a, b = tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)"))
  local c = tonumber(applet:receive())
  if not (a and b and c) then
    return answer(applet, 400, "text/plain", "a, b and the body must be whole numbers\n")
  end
  answer(applet, 200, "text/plain", tostring(a + b + c))
end)

core.register_service("delay", "http", function(applet)
  -- HAProxy counts whole milliseconds, so that a timer may end up to one too early
  core.msleep(tonumber(applet.path:match("%d+$")) + 1)
  answer(applet, 200, "text/plain", "ok")
end)

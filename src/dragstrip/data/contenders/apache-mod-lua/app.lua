-- Both workloads for mod_lua (Lua 5.3), as its documentation would write them.
local function answer(r, kind, body)
  r.content_type = kind
  r.headers_out["Content-Length"] = tostring(#body)
  r:puts(body)
  return apache2.OK
end

function hello(r)
  return answer(r, "text/plain", "hello world\n")
end

function multiply(r)
  local query = r:parseargs()
  -- tonumber first: Lua 5.3 multiplies strings as floats and would print 6.0
  local a, b = tonumber(query.a), tonumber(query.b)
  if not (a and b) then
    return 400
  end
  return answer(r, "text/html", "<html><body><p>Hello {{ mark }}!</p><p>PATH=" .. r.uri .. "</p><p>RESULT: "
    .. a .. "*" .. b .. "=" .. a * b .. "</p></body></html>\n")
end

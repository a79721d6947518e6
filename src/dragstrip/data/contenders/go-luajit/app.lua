-- A chunk that is called per request with path, query, mark and body; answers status, content type and body.
local path, query, mark, given = ...

if path == "/" then
  return 200, "text/plain", "hello world\n"
end
if path ~= "/multiply" then
  return require("others")(path, query, given)
end
local a, b = tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)"))
if not (a and b) then
  return 400, "text/plain", "a and b must be whole numbers\n"
end
return 200, "text/html", string.format(
  "<html><body><p>Hello %s!</p><p>PATH=%s</p><p>RESULT: %d*%d=%d</p></body></html>\n", mark, path, a, b, a * b)

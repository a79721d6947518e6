-- A function of path, query and mark that answers status, content type and body; loaded once, called per request.
return function(path, query, mark)
  if path == "/" then
    return 200, "text/plain", "hello world\n"
  end
  if path ~= "/multiply" then
    return 404, "text/plain", "not found\n"
  end
  -- gopher-lua's patterns know no %f: an & in front makes every key begin after one.
  query = "&" .. query
  local a, b = tonumber(query:match("&a=(%d+)")), tonumber(query:match("&b=(%d+)"))
  if not (a and b) then
    return 400, "text/plain", "a and b must be whole numbers\n"
  end
  return 200, "text/html", string.format(
    "<html><body><p>Hello %s!</p><p>PATH=%s</p><p>RESULT: %d*%d=%d</p></body></html>\n", mark, path, a, b, a * b)
end

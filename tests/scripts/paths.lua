-- Several addresses, one after the other, looked up before the load.
local addresses = wrk.lookup("localhost", wrk.port)
local paths = { "/a?x=1", "/b", "/c" }
local bytes, turn = {}, 0

function init(args)
   for index, path in ipairs(paths) do bytes[index] = wrk.format("GET", path) end
   print("localhost", #addresses > 0, wrk.connect(wrk.lookup("127.0.0.1", wrk.port)[1]))
end

function request()
   turn = turn % #bytes + 1
   return bytes[turn]
end

function done(summary, latency, requests)
   print("paths", #paths, summary.errors.status)
end

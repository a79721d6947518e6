-- A thread ends its load with the first answer that is no success.
local threads = {}

function setup(thread)
   table.insert(threads, thread)
end

seen, bad = 0, 0

function request()
   seen = seen + 1
   return wrk.format("GET", seen > 40 and "/500" or "/")
end

function response(status, headers, body)
   if status ~= 200 then
      bad = bad + 1
      wrk.thread:stop()
   end
end

function done(summary, latency, requests)
   local found = 0
   for _, thread in ipairs(threads) do found = found + thread:get("bad") end
   print("stopped after errors:", found > 0, summary.errors.status > 0)
end

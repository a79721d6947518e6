-- A pause before each request: few of them leave.
local threads = {}

function setup(thread) table.insert(threads, thread) end

pauses = 0

function delay()
   pauses = pauses + 1
   return 50
end

function done(summary, latency, requests)
   local paused = 0
   for _, thread in ipairs(threads) do paused = paused + thread:get("pauses") end
   -- Ten connections, a second: about 200 at the most, and latencies without the pauses.
   print("paused", paused >= summary.requests, summary.requests <= 210, latency.min < 50000)
end

-- Each request has a number of its own, counted by thread.
local threads = {}

function setup(thread)
   table.insert(threads, thread)
end

sent = 0

function request()
   sent = sent + 1
   return wrk.format(nil, "/n/" .. sent, { ["X-Mark"] = tostring(sent) })
end

function done(summary, latency, requests)
   local total = 0
   for _, thread in ipairs(threads) do total = total + thread:get("sent") end
   print("counted", total, "answered", summary.requests)
end

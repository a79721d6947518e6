-- Answers are read: status, headers and body.
local threads = {}

function setup(thread) table.insert(threads, thread) end

statuses, longest, kinds = {}, 0, {}
local turn = 0

function request()
   turn = turn + 1
   return wrk.format("GET", ({ "/", "/empty", "/500", "/chunked" })[turn % 4 + 1])
end

function response(status, headers, body)
   statuses["s" .. status] = (statuses["s" .. status] or 0) + 1
   longest = math.max(longest, #body)
   if headers["Content-Type"] then kinds[headers["Content-Type"]] = true end
end

function done(summary, latency, requests)
   local all = {}
   for _, thread in ipairs(threads) do
      for status in pairs(thread:get("statuses")) do all[#all + 1] = status end
      print("longest body", thread:get("longest"), thread:get("kinds")["text/plain"])
   end
   table.sort(all)
   print("statuses", table.concat(all, " "), summary.errors.status > 0)
end

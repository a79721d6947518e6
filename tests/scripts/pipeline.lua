-- Three requests leave together, the same ones every time.
local batch

function init(args)
   local parts = {}
   for index, path in ipairs({ "/first", "/empty", "/third" }) do
      parts[index] = wrk.format("GET", path, { ["X-Mark"] = "p" .. index })
   end
   batch = table.concat(parts)
end

function request()
   return batch
end

function done(summary, latency, requests)
   io.write(string.format("pipelined: %d requests, %d timeouts\n", summary.requests, summary.errors.timeout))
end

-- A report of one's own.
function done(summary, latency, requests)
   io.write("------------------------------\n")
   for _, share in pairs({ 50, 90, 99, 99.999 }) do
      io.write(string.format("%g%% within %d us\n", share, latency:percentile(share)))
   end
   io.write(string.format("min %d max %d mean %.1f stdev %.1f\n", latency.min, latency.max, latency.mean, latency.stdev))
   local value, count = latency(1)
   io.write(string.format("least %d came %d times, of %d values\n", value, count, #latency))
   io.write(string.format("rate of a thread: %.1f at most\n", requests.max))
   local errors = summary.errors
   io.write(string.format("%d requests, %d bytes, %d us; errors %d %d %d %d %d\n", summary.requests, summary.bytes,
      summary.duration, errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end

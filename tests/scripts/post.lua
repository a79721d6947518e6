-- The same request every time: a form that is posted.
wrk.method = "POST"
wrk.body = "name=dragstrip&laps=3"
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
wrk.headers["X-Mark"] = "posted"

function done(summary, latency, requests)
   print("posted", summary.requests > 0, summary.errors.status)
end

require 'sinatra'
set :port, ENV.fetch('PORT', 4567)
get('/') { content_type :json; '{"hello":"world"}' }

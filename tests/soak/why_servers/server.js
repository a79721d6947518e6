// A server for tests/soak/why.py: `server PORT` serves, `server time LOOPS` measures planted().
const http = require("http");
let kept = 0;

// V8 inlines short functions into their callers; this function is too long for that.
function planted(loops) {
  let sum = kept;
  for (let i = 0; i < loops; i += 32) {
    sum = (Math.imul(sum, 31) ^ (i + 0)) | 0;
    sum = (Math.imul(sum, 33) ^ (i + 1)) | 0;
    sum = (Math.imul(sum, 35) ^ (i + 2)) | 0;
    sum = (Math.imul(sum, 37) ^ (i + 3)) | 0;
    sum = (Math.imul(sum, 39) ^ (i + 4)) | 0;
    sum = (Math.imul(sum, 41) ^ (i + 5)) | 0;
    sum = (Math.imul(sum, 43) ^ (i + 6)) | 0;
    sum = (Math.imul(sum, 45) ^ (i + 7)) | 0;
    sum = (Math.imul(sum, 47) ^ (i + 8)) | 0;
    sum = (Math.imul(sum, 49) ^ (i + 9)) | 0;
    sum = (Math.imul(sum, 51) ^ (i + 10)) | 0;
    sum = (Math.imul(sum, 53) ^ (i + 11)) | 0;
    sum = (Math.imul(sum, 55) ^ (i + 12)) | 0;
    sum = (Math.imul(sum, 57) ^ (i + 13)) | 0;
    sum = (Math.imul(sum, 59) ^ (i + 14)) | 0;
    sum = (Math.imul(sum, 61) ^ (i + 15)) | 0;
    sum = (Math.imul(sum, 63) ^ (i + 16)) | 0;
    sum = (Math.imul(sum, 65) ^ (i + 17)) | 0;
    sum = (Math.imul(sum, 67) ^ (i + 18)) | 0;
    sum = (Math.imul(sum, 69) ^ (i + 19)) | 0;
    sum = (Math.imul(sum, 71) ^ (i + 20)) | 0;
    sum = (Math.imul(sum, 73) ^ (i + 21)) | 0;
    sum = (Math.imul(sum, 75) ^ (i + 22)) | 0;
    sum = (Math.imul(sum, 77) ^ (i + 23)) | 0;
    sum = (Math.imul(sum, 79) ^ (i + 24)) | 0;
    sum = (Math.imul(sum, 81) ^ (i + 25)) | 0;
    sum = (Math.imul(sum, 83) ^ (i + 26)) | 0;
    sum = (Math.imul(sum, 85) ^ (i + 27)) | 0;
    sum = (Math.imul(sum, 87) ^ (i + 28)) | 0;
    sum = (Math.imul(sum, 89) ^ (i + 29)) | 0;
    sum = (Math.imul(sum, 91) ^ (i + 30)) | 0;
    sum = (Math.imul(sum, 93) ^ (i + 31)) | 0;
  }
  kept = sum;
}

function answer(request, response) {
  planted(LOOPS);
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": 8 });
  response.end('{"id":1}');
}

if (process.argv[2] === "time") {
  const loops = Number(process.argv[3]), calls = Math.round(20000000 / (loops + 20));
  for (let call = 0; call < calls / 4; call++) planted(loops);
  const begun = process.cpuUsage();
  for (let call = 0; call < calls; call++) planted(loops);
  const spent = process.cpuUsage(begun);
  console.log(((spent.user + spent.system) / calls).toFixed(6));
} else {
  http.createServer(answer).listen(Number(process.argv[2]), "127.0.0.1");
}

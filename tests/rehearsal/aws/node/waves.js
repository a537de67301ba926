// CDK's own provider framework against a Lambda service with a concurrency limit for the whole account.
//
//     node waves.js FRAMEWORK_FOLDER LIMIT HANDLER_MS < graph.json
//
// The graph names custom resources of one stack: {id: {after: [ids], functions: 1 or 2}}. As in
// CloudFormation each is begun as soon as what it waits for is done, and the function that answers for
// it is called asynchronously: without a free place it waits in Lambda's queue. The function that the
// framework calls in turn is called synchronously and gets 429 instead, after which the SDK tries twice
// more and gives up. Prints one JSON object.
const http = require('http');
const path = require('path');

const [folder, limit, handlerMs] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const graph = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
let running = 0, most = 0, throttled = 0;

function begin() {
  running += 1;
  most = Math.max(most, running);
}

async function inPlace(work) {
  while (running >= limit) await pause(50);
  begin();
  try { return await work(); } finally { running -= 1; }
}

const server = http.createServer((request, response) => {
  response.setHeader('content-type', 'application/json');
  if (request.method === 'GET') {
    response.end(JSON.stringify({ Configuration: { State: 'Active', LastUpdateStatus: 'Successful' } }));
    return;
  }
  request.resume();
  request.on('end', () => {
    if (running >= limit) {
      throttled += 1;
      response.statusCode = 429;
      response.setHeader('x-amzn-errortype', 'TooManyRequestsException');
      response.end(JSON.stringify({ Reason: 'ConcurrentInvocationLimitExceeded', Type: 'User', message: 'Rate Exceeded.' }));
      return;
    }
    begin();
    setTimeout(() => { running -= 1; response.end('{}'); }, handlerMs);
  });
});

server.listen(0, '127.0.0.1', async () => {
  Object.assign(process.env, {
    AWS_ENDPOINT_URL_LAMBDA: `http://127.0.0.1:${server.address().port}`,
    AWS_REGION: 'us-west-2', AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x',
    USER_ON_EVENT_FUNCTION_ARN: 'arn:aws:lambda:us-west-2:111122223333:function:kubectl',
  });
  const say = console.log;
  console.log = () => {};
  const outbound = require(path.join(folder, 'outbound'));
  const failed = {};
  outbound.httpRequest = async (_options, body) => {
    const answer = JSON.parse(body);
    if (answer.Status === 'FAILED') failed[answer.LogicalResourceId] = answer.Reason.split('\n')[0];
  };
  const framework = Object.values(require(path.join(folder, 'framework')))[0];
  const event = (id) => ({
    RequestType: 'Create', ResourceURL: 'x', ResponseURL: 'https://x/y?z', StackId: 's', RequestId: id,
    LogicalResourceId: id, ResourceType: 'Custom::K', ResourceProperties: {},
  });
  const begun = Date.now();
  const done = {};
  const make = (id) => done[id] ??= (async () => {
    await Promise.all(graph[id].after.map(make));
    if (Object.keys(failed).length > 0) return;
    await inPlace(() => graph[id].functions === 2 ? framework(event(id)) : pause(handlerMs));
  })();
  await Promise.all(Object.keys(graph).map(make));
  say(JSON.stringify({ failed, throttled, most, seconds: (Date.now() - begun) / 1000 }));
  process.exit(0);
});

// Asks a server of the Redis protocol with ioredis, without options. Prints what CL.THROTTLE says.
const Redis = require('ioredis');

async function main() {
  const client = new Redis(Number(process.argv[2]));
  for (let i = 0; i < 2; i++) {
    console.log((await client.call('CL.THROTTLE', 'node', 1, 1, 60)).join(' '));
  }
  const answer = await client.call('STINT.CHECK', 'api', 1, 'user', 'node');
  if (answer[answer.indexOf('remaining') + 1] !== 2) throw new Error(`STINT.CHECK: ${answer}`);
  const pipeline = client.pipeline();
  for (let i = 0; i < 100; i++) pipeline.call('CL.THROTTLE', 'pipe', 1000, 1, 60);
  const answers = await pipeline.exec();
  if (answers.length !== 100 || answers.some(([err]) => err)) throw new Error('pipeline');
  await client.quit();
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});

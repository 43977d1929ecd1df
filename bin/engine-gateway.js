#!/usr/bin/env node
// The package's command. Plain JavaScript, so that an old Node says what it lacks instead of a syntax error.
const major = Number(process.versions.node.split('.')[0]);
if (major < 26) {
  console.error(`engine-gateway needs Node.js 26 or newer; this is ${process.version}.`);
  process.exit(1);
}
await import('../dist/server/main.js');

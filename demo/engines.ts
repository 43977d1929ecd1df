/**
 * Three simulated engine clusters in a process of their own:
 * `node demo/engines.ts [--ports A,B,C] [--product-name Engine] [--control-port N]`.
 */
import { parseArgs } from 'node:util';
import { fleetPorts, startFleet } from './fleet.ts';

const { values } = parseArgs({
  options: {
    ports: { type: 'string', default: fleetPorts.join(',') },
    'product-name': { type: 'string', default: 'Engine' },
    'control-port': { type: 'string' },
  },
});

try {
  const fleet = await startFleet({
    ports: values.ports.split(',').map(Number),
    productName: values['product-name'],
    ...(values['control-port'] === undefined ? {} : { controlPort: Number(values['control-port']) }),
  });
  for (const { name, url, suffix } of fleet.engines) console.log(`${name} listens on ${url}, coordinator ${suffix}`);
  if (fleet.controlUrl !== undefined) console.log(`control endpoint: ${fleet.controlUrl}`);
  process.send?.({ ready: true, controlUrl: fleet.controlUrl });
  const stop = () => {
    fleet.close().then(
      () => process.exit(0),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  };
  process.once('SIGINT', stop).once('SIGTERM', stop);
} catch (error) {
  const { code, port } = error as NodeJS.ErrnoException & { port?: number };
  const fix = 'stop the other program, or choose other ports with --ports A,B,C';
  console.error(code === 'EADDRINUSE' ? `port ${port} is taken: ${fix}` : error);
  process.send?.({ ready: false, code, port });
  process.exitCode = 1;
  if (process.connected) process.disconnect?.();
}

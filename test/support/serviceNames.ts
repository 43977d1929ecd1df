/**
 * Loaded into a gateway before it starts (`node --import`): names of Services, which only a cluster's own DNS knows, are this
 * machine. All else is resolved as ever.
 */
import dns from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';

const system = dns.lookup;
dns.lookup = ((name: string, ...rest: unknown[]) =>
  (system as (...all: unknown[]) => void)(/\.svc$/.test(name) ? '127.0.0.1' : name, ...rest)) as typeof dns.lookup;
syncBuiltinESMExports();

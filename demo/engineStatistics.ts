import { randomBytes } from 'node:crypto';

/** What an engine counts of itself. */
export interface EngineCounts {
  readonly queued: number;
  readonly running: number;
  readonly workers: number;
}

/**
 * `/metrics` in the format of OpenMetrics, with the names that the engine's management beans give.
 * @param product product name in lower case, which begins the names
 * @param wanted names of `name[]`; empty for all
 */
export function metricsText(
  product: string,
  { queued, running, workers }: EngineCounts,
  wanted: readonly string[],
): string {
  const all: Readonly<Record<string, number>> = {
    [`${product}_execution_name_QueryManager_QueuedQueries`]: queued,
    [`${product}_execution_name_QueryManager_RunningQueries`]: running,
    [`${product}_metadata_name_DiscoveryNodeManager_ActiveNodeCount`]: workers,
    [`${product}_metadata_name_DiscoveryNodeManager_InactiveNodeCount`]: 0,
  };
  const selected = Object.entries(all).filter(([name]) => wanted.length === 0 || wanted.includes(name));
  return `${selected.map(([name, value]) => `# TYPE ${name} gauge\n${name} ${value.toFixed(1)}\n`).join('')}# EOF\n`;
}

/** `/v1/jmx/mbean/{name}`; undefined where there is no such bean. */
export function managementBean(product: string, counts: EngineCounts, name: string): object | undefined {
  const beans: Readonly<Record<string, Readonly<Record<string, number>>>> = {
    [`${product}.metadata:name=DiscoveryNodeManager`]: { ActiveNodeCount: counts.workers, InactiveNodeCount: 0 },
    [`${product}.execution:name=QueryManager`]: { QueuedQueries: counts.queued, RunningQueries: counts.running },
  };
  const values = beans[name];
  if (values === undefined) return undefined;
  const attributes = Object.entries(values).map(([attribute, value]) => ({
    name: attribute,
    type: 'long',
    description: '',
    readable: true,
    writable: false,
    value,
  }));
  return { objectName: name, className: 'simulated', description: '', attributes, operations: [] };
}

/** `/ui/api/stats` */
export function uiStatistics({ queued, running, workers }: EngineCounts): object {
  return {
    runningQueries: running,
    blockedQueries: 0,
    queuedQueries: queued,
    activeCoordinators: 1,
    activeWorkers: workers,
    runningDrivers: 0,
  };
}

/**
 * Who may log in. Without passwords of its own an engine takes any user without one, and refuses passwords, as engines
 * do over connections that are not secure.
 */
export class Logins {
  readonly #passwords: ReadonlyMap<string, string> | null;
  readonly #sessions = new Set<string>();

  constructor(passwords: Readonly<Record<string, string>> | undefined) {
    this.#passwords = passwords === undefined ? null : new Map(Object.entries(passwords));
  }

  /** Whether passwords are asked for. */
  get secured(): boolean {
    return this.#passwords !== null;
  }

  accepts(user: string, password: string): boolean {
    if (user === '') return false;
    return this.#passwords === null ? password === '' : this.#passwords.get(user) === password;
  }

  /** Whether an `Authorization` header names a user with the right password. */
  acceptsBasic(authorization: string | undefined): boolean {
    const encoded = /^Basic (.+)$/i.exec(authorization ?? '')?.[1];
    if (encoded === undefined) return false;
    const [user = '', ...password] = Buffer.from(encoded, 'base64').toString('utf8').split(':');
    return this.accepts(user, password.join(':'));
  }

  /** A new session of the web interface. */
  open(): string {
    const session = randomBytes(16).toString('hex');
    this.#sessions.add(session);
    return session;
  }

  /** Whether a `Cookie` header holds a session of the web interface. */
  isOpen(cookieName: string, cookies: string | undefined): boolean {
    return (cookies ?? '').split(/;\s*/).some((pair) => {
      const [name, value = ''] = pair.split('=', 2);
      return name === cookieName && this.#sessions.has(value);
    });
  }
}

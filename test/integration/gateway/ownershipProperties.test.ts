import fc from 'fast-check';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultStickinessOptions, Stickiness } from '../../../src/gateway/ownership/stickiness.ts';
import { neverChecked } from '../../../src/routing/routingTable.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { clusterAt, storeAway } from '../../support/gateway.ts';

/*
 * Two replicas on one real database, three clusters and three suffixes: clusters answer with ids of any suffix, replicas
 * restart, lose the database and get it back, clusters disappear and come back, time passes.
 */
const logger = pino({ level: 'silent' });
/** `routing.ownerTakeover`, milliseconds. */
const TAKEOVER = 60_000;
/** Milliseconds between two looks of a replica. */
const STEP = 5_000;
const CLUSTERS = ['a', 'b', 'c'] as const;
const SUFFIXES = ['sfx01', 'sfx02', 'sfx03'] as const;
type Name = (typeof CLUSTERS)[number];
type Suffix = (typeof SUFFIXES)[number];
type Presence = 'up' | 'sick' | 'deleted';

const healthy = { ...neverChecked, status: 'HEALTHY', reason: 'ok', checkedAt: 1 } as const;
const sick = { ...neverChecked, status: 'UNHEALTHY', reason: 'refused', checkedAt: 1 } as const;
const entryOf = (name: Name) => clusterAt(name, `http://${name}`, { uid: `uid of ${name}` });

/** Calls of methods of a repository that are not answered yet. */
function tracking<T extends object>(repository: T, pending: Set<Promise<unknown>>): T {
  return new Proxy(repository, {
    get: (target, method) => {
      const value: unknown = Reflect.get(target, method);
      if (typeof value !== 'function') return value;
      return (...args: readonly unknown[]) => {
        const called = value.apply(target, args) as Promise<unknown>;
        pending.add(called);
        const over = () => pending.delete(called);
        called.then(over, over);
        return called;
      };
    },
  });
}

/** A replica of the gateway, as far as the ownership of queries is concerned. */
class Replica {
  isAway = false;
  stickiness: Stickiness;
  /** The owners that this replica goes by: those of the database, and those it accepted without. */
  view = new Map<Suffix, Name>();
  readonly #world: World;
  readonly #store: KnexStore;
  readonly #pending = new Set<Promise<unknown>>();

  constructor(world: World, store: KnexStore) {
    this.#world = world;
    this.#store = store;
    this.stickiness = this.#create();
  }

  #create(): Stickiness {
    const coordinators = tracking(this.#store.coordinators, this.#pending);
    const { queries, history } = this.#store;
    const isAway = () => this.isAway;
    const store = {
      get coordinators() {
        return isAway() ? storeAway.coordinators : coordinators;
      },
      get queries() {
        return isAway() ? storeAway.queries : queries;
      },
      get history() {
        return isAway() ? storeAway.history : history;
      },
    };
    const { table, clock } = this.#world;
    const more = { upstream: () => undefined, takeover: TAKEOVER, logger, clock };
    // Nothing depends on real time: no timer runs, and the database answers or rejects.
    const times = { learnTimeout: 60_000, lookupTimeout: 60_000, catchUpTime: 0, tick: 1_000 };
    const options = { ...defaultStickinessOptions, ...times };
    return new Stickiness({ store, history: { findBuffered: () => null }, table, ...more }, options);
  }

  /** Ends the process and starts another one: what was not stored is forgotten. */
  async restart(): Promise<void> {
    this.stickiness = this.#create();
    this.view = new Map();
    await this.stickiness.start();
    this.stickiness.stop();
  }

  /** What its timer does; afterwards it knows what the database knows. */
  async tick(): Promise<void> {
    this.stickiness.sample();
    while (this.#pending.size > 0) {
      await Promise.allSettled(this.#pending);
      // Continuations of what was answered may ask again.
      await new Promise(setImmediate);
    }
    if (this.isAway) return;
    await this.stickiness.refresh();
  }
}

/** What there is, and what the model knows of it. */
class World {
  #now = 1_000_000;
  #count = 0;
  readonly clock = { now: () => 1_800_000_000_000 + this.#now, monotonic: () => this.#now };
  readonly table = new RoutingTableHolder();
  readonly replicas: readonly Replica[];
  /** The owners that the database has. */
  readonly owners = new Map<Suffix, Name>();
  /** Query ids with the cluster whose answer was accepted. */
  readonly accepted = new Map<string, Name>();
  readonly #store: KnexStore;
  readonly #presence = new Map<Name, Presence>(CLUSTERS.map((name) => [name, 'up']));
  readonly #goneSince = new Map<Name, number>();

  constructor(stores: readonly KnexStore[]) {
    this.#store = stores[0]!;
    this.#setTable();
    this.replicas = stores.map((store) => new Replica(this, store));
  }

  async start(): Promise<void> {
    for (const replica of this.replicas) await replica.restart();
  }

  set(name: Name, presence: Presence): void {
    this.#presence.set(name, presence);
    if (presence === 'up') this.#goneSince.delete(name);
    else if (!this.#goneSince.has(name)) this.#goneSince.set(name, this.#now);
    this.#setTable();
  }

  #setTable(): void {
    const present = CLUSTERS.filter((name) => this.#presence.get(name) !== 'deleted');
    this.table.setInputs({ clusters: present.map(entryOf) });
    for (const name of present) {
      this.table.setHealth(name, entryOf(name).proxyTo, this.#presence.get(name) === 'up' ? healthy : sick);
    }
  }

  /** A cluster answers a submission. */
  async answer(at: number, name: Name, suffix: Suffix): Promise<void> {
    const replica = this.replicas[at]!;
    const id = `20261121_015745_${String(++this.#count).padStart(5, '0')}_${suffix}`;
    const { proxyTo, uid } = entryOf(name);
    const before = replica.view.get(suffix);
    const conflict = await replica.stickiness.learn(id, { cluster: name, proxyTo, uid });
    const isAccepted = conflict === null;
    if (isAccepted) this.accepted.set(id, name);
    if (replica.isAway) {
      // Memory decides: the first one it knows keeps it.
      expect([suffix, isAccepted]).toEqual([suffix, before === undefined || before === name]);
      if (before === undefined) replica.view.set(suffix, name);
      return;
    }
    await this.#readOwners();
    const owner = this.owners.get(suffix);
    expect([suffix, isAccepted]).toEqual([suffix, owner === name]);
    if (before === name) expect(isAccepted).toBe(true);
  }

  /** A client asks for a query that a cluster accepted. */
  async followUp(at: number, pick: number): Promise<void> {
    const ids = [...this.accepted.keys()];
    if (ids.length === 0) return;
    const id = ids[pick % ids.length]!;
    const suffix = id.slice(-5) as Suffix;
    const { stickiness, view } = this.replicas[at]!;
    if (stickiness.isDisowned(id)) {
      // Two clusters claimed the suffix during an outage: this query was the loser's.
      expect(this.accepted.get(id)).not.toBe(view.get(suffix));
      return;
    }
    const found = stickiness.ownerNow(id) ?? (await stickiness.find(id));
    const asked = typeof found === 'string' ? undefined : 'owner' in found ? found.owner.cluster : found.cluster;
    expect([id, asked]).toEqual([id, view.get(suffix)]);
  }

  async pass(steps: number): Promise<void> {
    for (let step = 0; step < steps; step++) {
      this.#now += STEP;
      await this.tick();
    }
  }

  async tick(): Promise<void> {
    for (const replica of this.replicas) await replica.tick();
    await this.#readOwners();
    for (const { isAway, view } of this.replicas) {
      if (!isAway) for (const [suffix, owner] of this.owners) view.set(suffix, owner);
    }
  }

  /** Reads the owners from the database: one is replaced only when it was gone for long enough. */
  async #readOwners(): Promise<void> {
    for (const row of await this.#store.coordinators.all()) {
      const suffix = row.suffix as Suffix;
      const before = this.owners.get(suffix);
      const owner = row.cluster as Name;
      if (before !== undefined && before !== owner) {
        const goneFor = this.#now - (this.#goneSince.get(before) ?? this.#now);
        expect([suffix, before, goneFor]).toEqual([suffix, before, Math.max(goneFor, TAKEOVER)]);
      }
      this.owners.set(suffix, owner);
    }
  }
}

type Step = fc.AsyncCommand<World, null>;

const step = (name: string, run: (world: World) => unknown): Step => ({
  check: () => true,
  toString: () => name,
  run: async (world) => {
    await run(world);
    await world.tick();
  },
});

const at = fc.nat(1);
const name = fc.constantFrom(...CLUSTERS);
const steps: fc.Arbitrary<Step>[] = [
  ...Array.from({ length: 3 }, () =>
    fc
      .record({ at, name, suffix: fc.constantFrom(...SUFFIXES) })
      .map((one) => step(`answer ${JSON.stringify(one)}`, (world) => world.answer(one.at, one.name, one.suffix))),
  ),
  ...Array.from({ length: 2 }, () =>
    fc
      .record({ at, pick: fc.nat(50) })
      .map((one) => step(`followUp ${JSON.stringify(one)}`, (world) => world.followUp(one.at, one.pick))),
  ),
  at.map((one) => step(`restart ${one}`, (world) => world.replicas[one]!.restart())),
  fc.record({ at, isAway: fc.boolean() }).map((one) =>
    step(`database ${JSON.stringify(one)}`, (world) => {
      world.replicas[one.at]!.isAway = one.isAway;
    }),
  ),
  fc
    .record({ name, presence: fc.constantFrom('up', 'sick', 'deleted') })
    .map((one) => step(`set ${JSON.stringify(one)}`, (world) => world.set(one.name, one.presence))),
  // Whether another one gets its ids, and every replica knows, is seen by answers and follow-ups afterwards.
  fc.record({ name, presence: fc.constantFrom('sick', 'deleted') }).map((one) =>
    step(`lose ${JSON.stringify(one)}`, async (world) => {
      world.set(one.name, one.presence);
      await world.pass((1.5 * TAKEOVER) / STEP);
    }),
  ),
  fc.constantFrom(1, 4, 16).map((count) => step(`pass ${count}`, (world) => world.pass(count))),
];

for (const family of databases) {
  describe.skipIf(!family.available())(`the ownership of query ids on ${family.name}`, () => {
    let database: TestDatabase;
    let stores: readonly KnexStore[];
    beforeAll(async () => {
      database = await family.start();
      const settings = await database.create();
      const open = () => openStore({ ...settings, runMigrations: true, logger });
      stores = [await open(), await open()];
    });
    afterAll(async () => {
      await Promise.all((stores ?? []).map((store) => store.close()));
      await database?.dispose();
    });

    test('the first keeps it, on every replica, until it is gone; then another one can have it', async () => {
      await fc.assert(
        fc.asyncProperty(fc.commands(steps, { maxCommands: 60, size: 'max' }), async (commands) => {
          await stores[0]!.coordinators.deleteBefore(Number.MAX_SAFE_INTEGER);
          const world = new World(stores);
          await world.start();
          await fc.asyncModelRun(() => ({ model: world, real: null }), commands);
          // The database is back, the owner gone for good: recovery is possible.
          for (const replica of world.replicas) replica.isAway = false;
          await world.tick();
          const owner = world.owners.get('sfx01') ?? 'a';
          const other = owner === 'b' ? 'c' : 'b';
          world.set(owner, 'deleted');
          world.set(other, 'up');
          await world.pass((1.5 * TAKEOVER) / STEP);
          for (const replica of [0, 1]) await world.answer(replica, other, 'sfx01');
          expect(world.owners.get('sfx01')).toBe(other);
        }),
        { numRuns: family.name === 'sqlite' ? 40 : 10 },
      );
    });
  });
}

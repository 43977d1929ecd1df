import { pino } from 'pino';
import { Registry } from 'prom-client';
import { LeasedSlots } from '../../src/admission/leasedSlots.ts';
import type { AdmissionRequest } from '../../src/gateway/admission/admission.ts';
import { AdmissionMetrics } from '../../src/gateway/admission/admissionMetrics.ts';
import { FairAdmissionQueue } from '../../src/gateway/admission/fairAdmissionQueue.ts';
import { LimitedAdmission } from '../../src/gateway/admission/limitedAdmission.ts';
import { QueueCounts } from '../../src/gateway/admission/queueCounts.ts';
import { RunningSlots } from '../../src/gateway/admission/runningSlots.ts';
import { systemClock } from '../../src/model/clock.ts';
import { productNames } from '../../src/model/names.ts';
import type { LimitPolicy } from '../../src/routing/admissionPolicy.ts';
import { RoutingTableHolder } from '../../src/routing/tableHolder.ts';
import { noTrace } from '../../src/rules/decision.ts';
import { clusterAt } from '../../test/support/routableCluster.ts';
import { median } from '../statistics.ts';

const users = 100;
const rounds = 15;
const perRound = 100_000;

function limits(count: number): readonly LimitPolicy[] {
  return Array.from({ length: count }, (_, index) => ({
    key: `default/limit-${index}`,
    match: { users: (user: string) => user.startsWith('user'), groups: null, sources: null, routingGroups: null },
    per: (['user', 'source', 'all'] as const)[index % 3] as LimitPolicy['per'],
    maxRunning: 1_000_000,
    maxQueued: null,
    rate: null,
    weight: 1,
    mode: 'enforce',
    message: null,
  }));
}

function admissionWith(count: number) {
  const table = new RoutingTableHolder();
  const admission = { groups: new Map(), limits: limits(count) };
  table.setInputs({ clusters: [clusterAt('one', 'http://127.0.0.1:1')], rules: null, admission });
  const names = productNames('Engine');
  const logger = pino({ level: 'silent' });
  const ledger = new LeasedSlots({ replica: 'one', clock: systemClock, random: Math.random });
  const running = new RunningSlots({
    replica: 'r',
    slotQueries: { put: async () => {}, remove: async (_, ids) => ids.length, ofReplica: async () => [] },
    table,
    endedQueries: { put: async () => {}, since: async () => ({ queryIds: [], mark: 0 }) },
    runningQueries: { lastSeen: async () => new Map() },
    clock: systemClock,
    logger,
  });
  const limited = new LimitedAdmission({
    names,
    table,
    ledger,
    running,
    queueCounts: new QueueCounts(ledger),
    counts: { noteRejected: () => undefined },
    admissionQueue: new FairAdmissionQueue(false, () => systemClock.monotonic()),
    metrics: new AdmissionMetrics(new Registry(), ledger),
    clock: systemClock,
    isDatabaseAway: () => false,
    settings: { onDatabaseUnavailable: 'refuse', defaultRoutingGroup: 'adhoc' },
  });
  const heartbeat = () => {
    for (let one = ledger.begin(); one !== null; one = ledger.begin()) {
      one.decide(Date.now(), new Map());
      one.commit();
    }
  };
  return { limited, ledger, running, beat: heartbeat };
}

const requests: readonly AdmissionRequest[] = Array.from({ length: users }, (_, index) => ({
  decision: {
    group: 'adhoc',
    cluster: null,
    rule: null,
    decidedBy: 'default',
    onUnavailable: 'fallback',
    trace: noTrace,
  },
  user: { user: `user${index}`, userInfo: null },
  headers: [
    'Host',
    'gateway',
    'User-Agent',
    'bench',
    'X-Engine-User',
    `user${index}`,
    'X-Engine-Source',
    `tool${index % 5}`,
  ],
}));

/** Microseconds for a submission from admission to the end of its query, by the limits that match. */
function measured(count: number): () => number {
  const { limited, running, beat } = admissionWith(count);
  for (const request of requests) {
    const response = limited.admit(request);
    if (response.kind === 'wait') void response.begin(new AbortController().signal);
  }
  beat();
  return () => {
    beat();
    let waited = 0;
    const began = performance.now();
    for (let index = 0; index < perRound; index++) {
      const response = limited.admit(requests[index % users] as AdmissionRequest);
      if (response.kind !== 'now') waited += 1;
      else if (response.slots !== undefined) {
        response.slots.beginChoice();
        response.slots.bind('20261101_000000_00001_aaaaa', 'one');
        running.noteEnd('20261101_000000_00001_aaaaa', 'one');
      }
    }
    const each = ((performance.now() - began) * 1000) / perRound;
    if (waited > 0) throw new Error(`${waited} had to wait`);
    return each;
  };
}

/** Prints what a submission within its limits costs, with ten limits that match and with none, by turns. */
export async function measureSubmissions(): Promise<void> {
  const none = measured(0);
  const ten = measured(10);
  // Those that waited at first are admitted.
  await new Promise((resolve) => setTimeout(resolve, 200));
  const times: { readonly none: number[]; readonly ten: number[] } = { none: [], ten: [] };
  for (let round = 0; round < rounds; round++) {
    times.none.push(none());
    times.ten.push(ten());
  }
  const [without, withTen] = [median(times.none), median(times.ten)];
  console.log(`no limit declared:     ${without.toFixed(3)} µs a submission`);
  console.log(
    `ten limits that match: ${withTen.toFixed(3)} µs a submission, ${(withTen - without).toFixed(3)} µs more (to reach: 3 µs)`,
  );
}

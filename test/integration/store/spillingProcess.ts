/** A process that spills history without end, to be killed: `spillingProcess.ts DIRECTORY`. Prints a line once files grow. */
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { systemClock } from '../../../src/model/clock.ts';
import { GatewayError } from '../../../src/model/errors.ts';
import { RecordWriter } from '../../../src/store/recordWriter.ts';
import type { QueryRecord } from '../../../src/store/store.ts';
import { defaultHistorySettings } from '../../support/defaults.ts';

const insert = () => Promise.reject(new GatewayError('EG_DATABASE_UNAVAILABLE', 'away'));
const writer = new RecordWriter<QueryRecord>('history', insert, {
  settings: { ...defaultHistorySettings, bufferSize: 200, flushIntervalMs: 5 },
  spillDirectory: process.argv[2] ?? '',
  logger: pino({ level: 'silent' }),
  registry: new Registry(),
  clock: systemClock,
});
let count = 0;
setInterval(() => {
  for (let index = 0; index < 50; index++) {
    writer.add({
      ...{ queryId: `killed_${++count}`, queryText: 'select 1 '.repeat(200), user: 'u', source: null, backendUrl: 'b' },
      ...{ created: count, routingGroup: null, externalUrl: null, cluster: 'c', decision: null },
    });
  }
  console.log(writer.depth().spilled);
}, 2);

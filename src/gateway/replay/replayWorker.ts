/** Worker thread of `ReplayThread`: reads the history. */
import { parentPort } from 'node:worker_threads';
import { pino } from 'pino';
import { type ErrorCode, GatewayError } from '../../model/errors.ts';
import type { ShadowReport } from '../../replay/replayJobs.ts';
import { type SelectionJob, type SelectionReport, selectQueries } from '../../replay/selection.ts';
import { type ReplayReport, replayHistory } from './historyReplay.ts';
import type { ReplayJob } from './recordedQuery.ts';
import type { ShadowJob } from './shadow.ts';

/** The report, or the error for the caller. */
export type ReplayReply =
  | { readonly report: ReplayReport | SelectionReport | ShadowReport }
  | { readonly error: { readonly code: ErrorCode; readonly message: string } };

const port = parentPort;
if (port === null) throw new Error('replayWorker runs in a worker thread only');
port.on('message', async (job: ReplayJob | SelectionJob | ShadowJob) => port.postMessage(await replied(job)));

async function replied(job: ReplayJob | SelectionJob | ShadowJob): Promise<ReplayReply> {
  try {
    // Errors contain the driver's messages; the gateway's own connections log the rest.
    const logger = pino({ level: 'silent' });
    // Other jobs need none of the HTTP client.
    if ('targets' in job) return { report: await (await import('./shadow.ts')).shadowQueries(job, logger) };
    return { report: await ('filter' in job ? selectQueries(job, logger) : replayHistory(job, logger)) };
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return { error: { code: error.code, message: error.message } };
  }
}

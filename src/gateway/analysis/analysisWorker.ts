/** Runs in a worker thread of its own: analyses long statements for `AnalysisThread`. */
import { parentPort } from 'node:worker_threads';
import { analyzeTask, type StatementTask } from '../../sql/statementTask.ts';

parentPort?.on('message', (task: StatementTask) => {
  parentPort?.postMessage(analyzeTask(task));
});

/** Worker thread of `AnalysisThread`: analyzes long statements. */
import { parentPort } from 'node:worker_threads';
import { analyzeTask, type StatementTask } from '../../sql/analyzeSql.ts';

parentPort?.on('message', (task: StatementTask) => {
  parentPort?.postMessage(analyzeTask(task));
});

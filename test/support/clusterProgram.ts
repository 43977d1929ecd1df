/** A simulated engine as a process of its own, for tests that kill or stop it: options as JSON in its first argument. */
import { type EngineState, startSimulatedEngine } from '../../demo/simulatedEngine.ts';

const engine = await startSimulatedEngine(JSON.parse(process.argv[2] ?? '{}'));
process.on('message', (change: Partial<EngineState>) => {
  engine.setState(change);
  process.send?.({ state: engine.state });
});
// Without the test there is nobody left to stop it.
process.once('disconnect', () => process.exit(0));
process.send?.({ port: engine.port, suffix: engine.suffix });

// Health check of the container: exit code 0 when the gateway answers. ENGINE_GATEWAY_HEALTH_URL where the port is another.
const url = process.env.ENGINE_GATEWAY_HEALTH_URL ?? 'http://127.0.0.1:8080/livez';
try {
  const response = await fetch(url, { signal: AbortSignal.timeout(4000) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
} catch (error) {
  console.error(error.cause?.message ?? error.message);
  process.exitCode = 1;
}

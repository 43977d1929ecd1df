import { readFile } from 'node:fs/promises';
import { type HttpMethod, RequestContext } from '@kubernetes/client-node';
import { type Dispatcher, request } from 'undici';
import { GatewayError } from '../model/errors.ts';
import { userAgent } from '../model/version.ts';
import { KubeRequests, kubePath } from '../operator/sources/kubernetes/kubeApi.ts';
import { loadKubeConfig, ownNamespace } from '../operator/sources/kubernetes/kubeConfig.ts';
import { kubeReason } from '../operator/sources/kubernetes/kubeErrors.ts';
import type { CliIo, CommandLine } from './io.ts';

const TIMEOUT_MS = 30_000;
/** Label of the Service in the chart and in the manifests. */
const LABEL = 'app.kubernetes.io/name=engine-gateway';

const mistake = (message: string) => new GatewayError('EG_IMPOSSIBLE', message);

/** Reads the kubeconfig as kubectl does. @throws GatewayError */
function kubeAccess({ kubeconfig, context, namespace }: CommandLine) {
  const config = loadKubeConfig(kubeconfig ?? null, '--kubeconfig');
  const names = config.getContexts().map(({ name }) => name);
  if (context !== undefined && !names.includes(context))
    throw mistake(`--context: the kubeconfig has no context ${context}; it has ${names.join(', ')}`);
  if (context !== undefined) config.setCurrentContext(context);
  return { config, namespace: namespace ?? ownNamespace(config) };
}

interface Service {
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
  readonly spec: { readonly ports: readonly { readonly name?: string; readonly port: number }[] };
}

/** Returns namespace, name and port of the Service of the REST API in the namespace. */
async function findService({ config, namespace }: ReturnType<typeof kubeAccess>) {
  const fix = 'name the Service of the gateway with --service NAMESPACE/NAME, or its address with --server URL';
  const path = `${kubePath('api', 'v1', 'namespaces', namespace, 'services')}?labelSelector=${encodeURIComponent(LABEL)}`;
  const call = { method: 'GET', path, timeoutMs: TIMEOUT_MS } as const;
  const { items } = await new KubeRequests(config).send<{ readonly items: readonly Service[] }>(call).catch((cause) => {
    const reason = kubeReason(cause).replace('set resources.kubeconfig', 'pass --kubeconfig');
    throw new GatewayError('EG_SOURCE_UNAVAILABLE', `${reason}; ${fix}`, { cause });
  });
  // The Service of an address for the REST API is there in addition to the one for queries.
  const admins = items.filter(({ metadata: { labels } }) => labels['app.kubernetes.io/component'] === 'admin');
  const [service, ...others] = admins.length > 0 ? admins : items;
  if (service === undefined) throw mistake(`no Service in the namespace ${namespace} has the label ${LABEL}; ${fix}`);
  const { metadata, spec } = service;
  const names = [service, ...others].map((each) => each.metadata.name).join(', ');
  if (others.length > 0) throw mistake(`the namespace ${namespace} has several gateways, ${names}; ${fix}`);
  const port = spec.ports.find(({ name }) => name === 'http') ?? spec.ports[0];
  return [namespace, metadata.name, port?.name ?? String(port?.port)] as const;
}

type Headers = Readonly<Record<string, string>>;
type Method = 'GET' | 'POST' | 'PUT';
/** Sends a request to the REST API of a gateway; returns its response, and cookies as `name=value`. */
type Send = (method: Method, path: string, headers: Headers, body?: object) => Promise<readonly [unknown, string[]]>;

/** Calls the REST API of a gateway. @throws GatewayError with the reason and the fix */
export type GatewayCall = <Result>(method: Method, path: string, body?: object) => Promise<Result>;

/** Connects to the gateway of the command line, and logs in if there are credentials. */
export async function connectGateway(options: CommandLine, io: CliIo): Promise<GatewayCall> {
  const { server } = options;
  const login = await readLogin(options, io.environment);
  if (server !== undefined && !/^https?:\/\/[^/]/.test(server))
    throw mistake(`--server: write http://HOST:PORT, not ${server}`);
  const direct: Send = (method, path, headers, body) =>
    exchange(`${server}`, method, `${server?.replace(/\/+$/, '')}${path}`, headers, body);
  const send = server === undefined ? await throughApiServer(options) : direct;
  const loggedIn = server === undefined ? session : authorization;
  const headers = login === null ? {} : await loggedIn(login, send);
  return async <Result>(method: Method, path: string, body?: object) =>
    (await send(method, path, headers, body))[0] as Result;
}

/** Reads credentials of a file or of the environment: other users of a machine see arguments. */
async function readLogin({ tokenFile }: CommandLine, environment: CliIo['environment']): Promise<Login | null> {
  const { ENGINE_GATEWAY_USER: username, ENGINE_GATEWAY_PASSWORD: password = '' } = environment;
  if (tokenFile === undefined) return username === undefined ? null : { username, password };
  const token = await readFile(tokenFile, 'utf8').catch((error: Error) => {
    throw mistake(`--token-file: ${error.message}`);
  });
  return { username: '', password: token.trim() };
}

async function throughApiServer(options: CommandLine): Promise<Send> {
  const kubernetes = kubeAccess(options);
  const stated = /^([^/:]+)\/([^/:]+)(?::([^/:]+))?$/.exec(options.service ?? '');
  if (options.service !== undefined && stated === null)
    throw mistake(`--service: write NAMESPACE/NAME or NAMESPACE/NAME:PORT, not ${options.service}`);
  const [, space, name, port = 'http'] = stated ?? ['', ...(await findService(kubernetes))];
  const proxy = `/api/v1/namespaces/${space}/services/${port === 'https' ? 'https:' : ''}${name}:${port}/proxy`;
  const { config } = kubernetes;
  return async (method, path, headers, body) => {
    const context = new RequestContext(`${config.getCurrentCluster()?.server}${proxy}${path}`, method as HttpMethod);
    await config.applySecurityAuthentication(context);
    const all = { ...context.getHeaders(), ...headers };
    return await exchange(`Service ${space}/${name}`, method, context.getUrl(), all, body, context.getDispatcher());
  };
}

/** Name and password; without a name, a token as the password. */
type Login = Readonly<Record<'username' | 'password', string>>;

function authorization({ username, password }: Login): Headers {
  const basic = () => Buffer.from(`${username}:${password}`).toString('base64');
  return { authorization: username === '' ? `Bearer ${password}` : `Basic ${basic()}` };
}

/** Logs in for a session in cookies: the API server does not pass the header Authorization on. */
async function session(login: Login, send: Send): Promise<Headers> {
  const [, cookies] = await send('POST', '/login', {}, login);
  const [, name, token] = cookies.map((pair) => /^(?:__Host-)?(.+-CSRF)=(.*)$/.exec(pair)).find(Boolean) ?? [];
  // Without authentication there is no session.
  return token === undefined ? {} : { cookie: cookies.join('; '), [`X-${name}`]: token };
}

async function exchange(
  place: string,
  method: Method,
  url: string,
  headers: Headers,
  body: object | undefined,
  dispatcher?: unknown,
): ReturnType<Send> {
  const response = await request(url, {
    ...{ method, signal: AbortSignal.timeout(TIMEOUT_MS), body: body === undefined ? null : JSON.stringify(body) },
    headers: { ...headers, accept: 'application/json', 'user-agent': userAgent, 'content-type': 'application/json' },
    ...(dispatcher === undefined ? {} : { dispatcher: dispatcher as Dispatcher }),
  }).catch((cause: Error & { readonly code?: string }) => {
    throw new GatewayError('EG_SOURCE_UNAVAILABLE', `${place} cannot be reached: ${cause.code ?? cause.message}`, {
      cause,
    });
  });
  const { statusCode: status } = response;
  const value: unknown = await response.body.json().catch(() => null);
  const cookies = [response.headers['set-cookie'] ?? []].flat().map((line) => line.split(';', 1)[0] ?? '');
  if (status >= 200 && status <= 299) return [value, cookies];
  // The gateway has `error`, the API server `message` (metav1.Status).
  const { error, message } = (value ?? {}) as {
    readonly error?: { readonly message: string };
    readonly message?: string;
  };
  const reason = error?.message.replace(/ Send the header.*/s, '') ?? message ?? `HTTP ${status}`;
  const code = status >= 500 ? 'EG_SOURCE_UNAVAILABLE' : 'EG_IMPOSSIBLE';
  throw new GatewayError(code, `${place}: ${reason}${fixOf(status, error === undefined, message !== undefined)}`);
}

function fixOf(status: number, isOther: boolean, isApiServer: boolean): string {
  if (isApiServer) return status === 403 ? '; you need rights to services/proxy there, or --server URL' : '';
  if (isOther) return '; the REST API may have another address (server.adminHosts): pass --server URL';
  if (status !== 401) return '';
  return ' Set ENGINE_GATEWAY_USER and ENGINE_GATEWAY_PASSWORD, or pass --token-file FILE (kubectl create token NAME).';
}

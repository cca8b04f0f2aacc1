// Plays OpenClaw for the plugin of its memory slot: takes a command in each line of standard input, and answers in a line.
import { createInterface } from "node:readline"

const [file, workspace, config] = process.argv.slice(2)
const { default: plugin, planFlush } = await import(file)
const found = { capability: null, tools: {}, descriptors: [], warnings: [] }
const api = {
  config: {},
  pluginConfig: JSON.parse(config),
  logger: { warn: (text) => found.warnings.push(text) },
  runtime: { agent: { resolveAgentWorkspaceDir: () => workspace } },
  registerMemoryCapability: (capability) => (found.capability = capability),
  registerTool: (make, { names }) => names.forEach((name) => (found.tools[name] = make)),
  registerCli: (_add, { descriptors }) => found.descriptors.push(...descriptors),
}
plugin.register(api)
const { runtime, promptBuilder } = found.capability

const open = async (purpose) => (await runtime.getMemorySearchManager({ cfg: {}, agentId: "main", purpose })).manager
const commands = {
  about: () => ({ id: plugin.id, kind: plugin.kind, tools: Object.keys(found.tools), cli: found.descriptors[0].name }),
  tool: ({ name, args, cfg = {}, ...ctx }) =>
    found.tools[name]({ config: cfg, agentId: "main", ...ctx })?.execute("1", args) ?? null,
  prompt: ({ tools, ...rest }) => promptBuilder({ agentId: "main", ...rest, availableTools: new Set(tools) }),
  classify: (params) => runtime.classifyWorkspaceMemoryPaths({ workspaceDir: workspace, ...params }),
  flush: (params) => planFlush(params),
  manager: async ({ call, args = [], purpose }) => (await open(purpose))[call](...args),
  close: async () => (await runtime.closeAllMemorySearchManagers()) ?? null,
  warnings: () => found.warnings,
}
for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...params } = JSON.parse(line)
  try {
    console.log(JSON.stringify({ answer: await commands[command](params) }))
  } catch (error) {
    console.log(JSON.stringify({ error: error.message }))
  }
}

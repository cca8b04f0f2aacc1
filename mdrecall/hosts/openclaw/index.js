// mdrecall for OpenClaw: a plugin for the memory slot.
// It asks a child process, `mdrecall mcp --read-only`, one for each workspace. No turn fails because of it: if the
// child is dead or slow, a lookup is empty after its time limit, and one warning says so until the child answers
// again. The next lookup starts a child that has ended again.
import { execFile, spawn, spawnSync } from "node:child_process"
import { readFileSync, realpathSync } from "node:fs"
import { isAbsolute, relative, resolve, sep } from "node:path"
import { promisify } from "node:util"

const ID = "memory-mdrecall"
// What mdrecall itself tells a model; the installation writes it.
const TEXTS = JSON.parse(readFileSync(new URL("./texts.json", import.meta.url), "utf8"))
const UNCITED = "Name no files and lines unless you are asked to."
const UNAVAILABLE = "mdrecall does not answer, so nothing was searched. Say so, and try again later."
// A turn waits for a lookup. If a model has asked for it, the turn may also wait for a process that is starting.
const LOOKUP_MS = 2_000
const START_MS = 10_000
// A child that has been silent for that long after a request hangs.
const SILENCE_MS = 30_000
// What OpenClaw may put into a prompt unasked is of the first two.
const TRUST = ["owner", "agent", "system", "untrusted"]
const ORIGINS = { owner: "owner", agent: "agent", flush: "agent", digest: "agent", system: "system" }
const NOTES = /^(MEMORY\.md|memory\.md|USER\.md|users\/[A-Za-z0-9][\w-]{0,127}\/USER\.md|memory\/(?!import\/).*\.md)$/

const leastTrusted = (...classes) => TRUST[Math.max(...classes.map((each) => TRUST.indexOf(each)))]

function within(limitMs, promise) {
  let timer
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it has not answered within ${limitMs / 1000} s`)), limitMs)
  })
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer))
}

// The child process of one workspace.
class Child {
  constructor(command, workspace, agentId, limitMs, logger) {
    Object.assign(this, { command, workspace, agentId, limitMs, logger })
    Object.assign(this, { process: null, ready: null, waiting: new Map(), number: 0, heardAt: 0, hasWarned: false })
  }

  args(name, ...rest) {
    return [...this.command.slice(1), name, "--workspace", this.workspace, "--agent", this.agentId, ...rest]
  }

  start() {
    if (this.process) return this.ready
    // In another folder, mdrecall leaves out what agents wrote while they worked on other projects.
    const where = { stdio: "pipe", cwd: this.workspace }
    const child = (this.process = spawn(this.command[0], this.args("mcp", "--read-only"), where))
    let [line, errors] = ["", ""]
    child.on("error", (error) => this.end(child, error.message))
    child.on("close", () => this.end(child, `it has ended: ${errors.trim().split("\n").at(-1) || "without a word"}`))
    child.stdin.on("error", () => {})
    child.stderr.setEncoding("utf8").on("data", (text) => (errors = (errors + text).slice(-2_000)))
    child.stdout.setEncoding("utf8").on("data", (text) => {
      this.heardAt = Date.now()
      const lines = (line + text).split("\n")
      line = lines.pop()
      for (const each of lines) this.receive(each)
    })
    // A command of OpenClaw ends although the child is still there; the child ends with its pipe.
    for (const each of [child, child.stdin, child.stdout, child.stderr]) each.unref()
    const clientInfo = { name: "OpenClaw", version: "1" }
    this.ready = this.send("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo })
    return this.ready
  }

  end(child, why) {
    if (this.process !== child) return
    this.process = null
    child.kill("SIGKILL")
    this.warn(why)
    for (const { reject } of this.waiting.values()) reject(new Error(why))
    this.waiting.clear()
  }

  stop() {
    this.process?.stdin.end()
    this.process = null
  }

  warn(why) {
    if (!this.hasWarned) this.logger.warn(`${ID}: mdrecall gives no answer (${why}).`)
    this.hasWarned = true
  }

  receive(line) {
    try {
      const { id, result, error } = JSON.parse(line)
      this.waiting.get(id)?.resolve(result ?? { isError: true, content: [{ type: "text", text: error.message }] })
      this.waiting.delete(id)
    } catch {
      // It is not an answer, and the request runs into its limit.
    }
  }

  send(method, params) {
    if (!this.waiting.size) this.heardAt = Date.now()
    const id = ++this.number
    return new Promise((resolve, reject) => {
      if (!this.process) return reject(new Error("it has ended"))
      this.waiting.set(id, { resolve, reject })
      this.process.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`)
    })
  }

  // Returns an answer, or null if there is none in time.
  async ask(method, params, isPatient) {
    const wasRunning = this.process
    try {
      await within(isPatient ? Math.max(START_MS, this.limitMs) : this.limitMs, this.start())
      const answer = await within(this.limitMs, this.send(method, params))
      this.hasWarned = false
      return answer
    } catch (error) {
      this.warn(error.message)
      // It may have ended a moment before it was asked.
      if (wasRunning && !this.process) return this.ask(method, params, isPatient)
      if (this.process && Date.now() - this.heardAt > SILENCE_MS) this.end(this.process, "it hangs")
      return null
    }
  }

  call(name, args, sessionKey, isPatient) {
    // If OpenClaw does not say which session asks, nothing private is found.
    const _meta = { "mdrecall/structured": true, "mdrecall/sessionKey": sessionKey || "explicit:openclaw" }
    return this.ask("tools/call", { name, arguments: args, _meta }, isPatient)
  }
}

// Returns who wrote a file. An agent writes into every note without a mark, so no note is known to be the owner's.
async function classify(workspaceDir, relativePath, source) {
  try {
    const find = () => relative(realpathSync(workspaceDir), realpathSync(resolve(workspaceDir, relativePath)))
    const path = source ? (source.canonicalRelativePath ?? "") : find().split(sep).join("/")
    if (/^(dreams\.md$|memory\/(dreaming|\.dreams)\/)/i.test(path)) return "system"
    if (!NOTES.test(path) || path.split("/").includes("..") || isAbsolute(path)) return "untrusted"
    const isImported = !source && /^<!-- mdrecall:import /m.test(readFileSync(resolve(workspaceDir, path), "utf8"))
    if (isImported) return "untrusted"
    // OpenClaw notes who wrote a file: after a flush in a group, for example, somebody untrusted.
    const host = await import("openclaw/plugin-sdk/memory-core-host-runtime-core").catch(() => null)
    return (await host?.readMemoryArtifactProvenance({ workspaceDir, relativePath: path }))?.originClass ?? "agent"
  } catch {
    return "untrusted"
  }
}

// Searches and reads for OpenClaw itself: its settings page, and its recall before a turn.
class Manager extends Child {
  async toHit({ origin, project, triggers, date, ...hit }) {
    const said = ORIGINS[origin || "agent"] ?? "untrusted"
    const originClass = leastTrusted(said, await classify(this.workspace, hit.path))
    return {
      score: 0,
      ...hit,
      source: "memory",
      snippet: hit.snippet.replace(/\n\nSource: .*$/, ""),
      ...(triggers && { triggers: triggers.join("; ") }),
      ...(project && { projectKey: project }),
      provenance: { originClass, sessionKind: "unknown", observedAt: Date.parse(date) || 0 },
    }
  }

  async search(query, { maxResults, minScore, sessionKey, sources = ["memory"], lexicalOnly } = {}) {
    // OpenClaw withholds conversations from its own code, so they are not searched.
    if (!sources.includes("memory")) return []
    const args = { query, corpus: "memory", ...(maxResults && { maxResults }), ...(minScore >= 0 && { minScore }) }
    const found = (await this.call("memory_search", args, sessionKey, !lexicalOnly))?.structuredContent
    return Promise.all((found?.results ?? []).map((each) => this.toHit(each)))
  }

  async listTriggerCandidates({ activeProjectKeys = [], limit = 200 } = {}) {
    const found = await this.ask("mdrecall/triggers", { projects: activeProjectKeys })
    return Promise.all((found?.entries ?? []).slice(0, limit).map((each) => this.toHit(each)))
  }

  async readFile({ relPath, ...range }) {
    const read = (await this.call("memory_get", { path: relPath, ...range }, "", true))?.structuredContent
    if (!read || (read.error && !read.missing)) throw new Error(read?.error ?? UNAVAILABLE)
    return read.missing ? { status: "not_found", text: "", path: relPath } : { ...read, status: "ok" }
  }

  async refresh() {
    try {
      const limits = { timeout: START_MS, killSignal: "SIGKILL" }
      const { stdout } = await promisify(execFile)(this.command[0], this.args("status", "--json"), limits)
      this.known = JSON.parse(stdout)[0].status
    } catch (error) {
      this.warn(error.message)
    }
  }

  status = () => ({ provider: "none", dirty: true, ...this.known, backend: "builtin" })
  probeVectorAvailability = async () => this.status().provider !== "none"
  probeEmbeddingAvailability = async () => ({ ok: this.status().provider !== "none" })
}

// Returns when and with which words OpenClaw flushes: as mdrecall does, but without the settings in mdrecall.json.
export function planFlush({ cfg, nowMs = Date.now(), contextWindowTokens = 0 } = {}) {
  const { userTimezone, compaction } = cfg?.agents?.defaults ?? {}
  const { enabled, softThresholdTokens = 4_000, forceFlushTranscriptBytes, model } = compaction?.memoryFlush ?? {}
  if (enabled === false) return null
  const size = /^([\d.]+)\s*([kmg]?)b?$/.exec(String(forceFlushTranscriptBytes).trim().toLowerCase()) ?? ["", 2, "m"]
  const window = contextWindowTokens > 0 ? contextWindowTokens : Infinity
  const reserveTokensFloor = Math.min(20_000, Math.floor(window / 4))
  const timeZone = userTimezone || undefined
  // In Swedish a day is written as its file is called.
  const day = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short" }).format(nowMs)
  const time = new Intl.DateTimeFormat("en-GB", { timeZone, dateStyle: "full", timeStyle: "long" }).format(nowMs)
  const [user, system] = TEXTS.flush
  return {
    softThresholdTokens: Math.min(softThresholdTokens, Math.floor((window - reserveTokensFloor) / 2)),
    forceFlushTranscriptBytes: Math.floor(size[1] * 1024 ** " kmg".indexOf(size[2] || " ")),
    reserveTokensFloor,
    ...(model?.trim() && { model: model.trim() }),
    prompt: `${user.replaceAll("YYYY-MM-DD", day)}\nCurrent time: ${time}`,
    systemPrompt: system.replaceAll("YYYY-MM-DD", day),
    relativePath: `memory/${day}.md`,
  }
}

// Returns the fields of an answer that OpenClaw's code reads. A model sees them too, so they do not repeat the text.
function describe({ isError, content, structuredContent: { results, text, path, error } = {} }) {
  if (isError) return { error: error ?? content[0].text }
  return results ? { results: results.map(({ snippet, ...result }) => result) } : { path, text: text.slice(0, 80) }
}

function register(api) {
  const managers = new Map()
  const { command = ["mdrecall"], timeoutMs = LOOKUP_MS } = api.pluginConfig ?? {}
  const isOn = ({ agents, memory } = {}, id) =>
    (agents?.entries?.[id]?.memory?.search?.enabled ?? memory?.search?.enabled) !== false
  const agentOf = ({ agentId, sessionKey }) => agentId ?? /^agent:([^:]+):/.exec(sessionKey ?? "")?.[1] ?? "main"
  const managerOf = (cfg, agentId) => {
    const folder = api.runtime.agent.resolveAgentWorkspaceDir(cfg, agentId)
    const key = `${agentId}\n${folder}`
    if (!managers.has(key)) managers.set(key, new Manager(command, folder, agentId, timeoutMs, api.logger))
    return managers.get(key)
  }

  api.registerMemoryCapability({
    deterministicRecallToolName: "memory_search",
    promptBuilder({ availableTools, citationsMode, agentId, agentSessionKey }) {
      const cfg = api.runtime.config?.current?.() ?? api.config
      const agent = agentOf({ agentId, sessionKey: agentSessionKey })
      if (!availableTools.has("memory_search") || !isOn(cfg, agent)) return []
      // The process starts while the model thinks.
      managerOf(cfg, agent).ask("ping", {}, true)
      return [citationsMode === "off" ? TEXTS.prompt.replace("Cite the file and its lines.", UNCITED) : TEXTS.prompt]
    },
    flushPlanResolver: planFlush,
    runtime: {
      async getMemorySearchManager({ cfg, agentId, purpose }) {
        if (!isOn(cfg, agentId)) return { manager: null, error: "memory is switched off" }
        const manager = managerOf(cfg, agentId)
        if (purpose === "status") await manager.refresh()
        return { manager }
      },
      resolveMemoryBackendConfig: () => ({ backend: "builtin" }),
      supportsWorkspaceMemoryReadSources: true,
      classifyWorkspaceMemoryPaths({ workspaceDir, relativePaths, readSources }) {
        const look = async (relativePath) => {
          const source = readSources && (readSources.find((each) => each.relativePath === relativePath) ?? {})
          return { relativePath, originClass: await classify(workspaceDir, relativePath, source) }
        }
        return Promise.all(relativePaths.map(look))
      },
      closeAllMemorySearchManagers: async () => managers.forEach((manager) => manager.stop()),
    },
  })

  for (const [name, about] of Object.entries(TEXTS.tools)) {
    const make = (ctx) => {
      const cfg = ctx.getRuntimeConfig?.() ?? ctx.runtimeConfig ?? ctx.config
      if (!cfg || !isOn(cfg, agentOf(ctx))) return null
      const execute = async (_id, args) => {
        const answer = await managerOf(cfg, agentOf(ctx)).call(name, args, ctx.sessionKey, true)
        if (answer) return { content: answer.content, details: describe(answer) }
        const details = { results: [], unavailable: true, error: UNAVAILABLE }
        return { content: [{ type: "text", text: JSON.stringify(details) }], details }
      }
      return { name, label: name, ...about, execute }
    }
    api.registerTool(make, { names: [name] })
  }

  const description = "Search, inspect and index the notes with mdrecall"
  const addCommands = ({ program, config }) => {
    const memory = program.command("memory").description(description)
    for (const name of ["status", "search", "index"]) {
      const added = memory.command(name).description(`mdrecall ${name}, with its options`).argument("[rest...]")
      const run = (rest, { agent = "main" }) => {
        const args = managerOf(config, agent).args(name, ...rest)
        const { error, status } = spawnSync(command[0], args, { stdio: "inherit" })
        if (error) throw error
        process.exitCode = status ?? 2
      }
      added.option("--agent <id>").allowUnknownOption().helpOption(false).action(run)
    }
  }
  api.registerCli(addCommands, { descriptors: [{ name: "memory", description, hasSubcommands: true }] })
}

export default { id: ID, name: "mdrecall", kind: "memory", register }

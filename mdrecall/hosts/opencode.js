// mdrecall for OpenCode: memory at the start of a session, in the summary of a compaction, and at the end of a turn.
// It runs inside OpenCode, so everything is asked of the command `mdrecall hook`, which has a time limit, and an error is
// an empty answer.
import { spawn } from "node:child_process"

const COMMAND = ["mdrecall"]
// The command ends well before that by itself; a turn waits for it.
const LIMIT_MS = 10_000

function ask(event, payload) {
  return new Promise((resolve) => {
    // A process of its own, so that what is written at the end of a turn is finished when OpenCode ends with it.
    const args = [...COMMAND.slice(1), "hook", event, "--host", "opencode"]
    const child = spawn(COMMAND[0], args, { stdio: ["pipe", "pipe", "ignore"], detached: true })
    const timer = setTimeout(() => child.kill(), LIMIT_MS)
    let output = ""
    const end = () => {
      clearTimeout(timer)
      try {
        resolve(JSON.parse(output) ?? {})
      } catch {
        resolve({})
      }
    }
    child.on("error", end)
    child.on("close", end)
    child.stdout.on("data", (data) => (output += data))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
  })
}

export const Mdrecall = async ({ client, directory }) => {
  const starts = new Map()
  const parents = new Map()
  const compacted = new Set()
  const requested = new Set()
  const describe = (id) => ({ session_id: id, cwd: directory, agent_id: parents.get(id) })

  async function stop(id) {
    const answer = await ask("stop", { ...describe(id), stop_hook_active: requested.delete(id) })
    if (answer.decision !== "block" || !answer.reason) return
    requested.add(id)
    await client.session.prompt({ path: { id }, body: { parts: [{ type: "text", text: answer.reason }] } })
  }

  return {
    config: async (config) => {
      config.mcp ??= {}
      config.mcp.mdrecall ??= { type: "local", command: [...COMMAND, "mcp"], enabled: true }
    },
    event: async ({ event }) => {
      const { info, sessionID } = event.properties ?? {}
      if (event.type === "session.created" && info?.parentID) parents.set(info.id, info.parentID)
      if (event.type === "session.compacted") {
        compacted.add(sessionID)
        starts.delete(sessionID)
      }
      if (event.type === "session.idle") await stop(sessionID)
    },
    // It is called for every request. The text stays the same for a session, so that the prompt cache holds.
    "experimental.chat.system.transform": async ({ sessionID }, output) => {
      if (!sessionID || parents.has(sessionID)) return
      const source = compacted.has(sessionID) ? "compact" : "startup"
      if (!starts.has(sessionID)) starts.set(sessionID, ask("session-start", { ...describe(sessionID), source }))
      const { additionalContext } = await starts.get(sessionID)
      if (additionalContext) output.system.push(additionalContext)
    },
    "chat.message": async ({ sessionID }, output) => {
      if (parents.has(sessionID) || requested.has(sessionID)) return
      const first = output.parts.find((part) => part.type === "text")
      if (!first) return
      const { additionalContext } = await ask("prompt", { ...describe(sessionID), prompt: first.text })
      if (additionalContext) first.text += `\n\n${additionalContext}`
    },
    "experimental.session.compacting": async ({ sessionID }, output) => {
      const { additionalContext } = await ask("before-compaction", describe(sessionID))
      if (additionalContext) output.context.push(additionalContext)
    },
  }
}

import compress from '@fastify/compress'
import Fastify from 'fastify'
const app = Fastify({ logger: true })
await app.register(compress)
app.get('/users', async (req) => ({ limit: Number(req.query.limit), users: ['Ada', 'Grace'] }))
app.get('/long', async () => ({ text: 'a line of text. '.repeat(500) }))
app.get('/empty', async (req, reply) => reply.code(204).send())
await app.listen({ port: Number(process.env.PORT || 3000) })

import compression from 'compression'
import express from 'express'
const app = express()
app.use(compression())
app.use(express.json())
app.get('/users', (req, res) => res.json({ limit: Number(req.query.limit), users: ['Ada', 'Grace'] }))
app.get('/long', (req, res) => res.json({ text: 'a line of text. '.repeat(500) }))
app.get('/empty', (req, res) => res.status(204).end())
app.listen(process.env.PORT || 3000)

#!/usr/bin/env node
// The plugin `kubectl engine-gateway`: kubectl runs a program of this name on PATH. The program knows it by its name.
import './engine-gateway.js';

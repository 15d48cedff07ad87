// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The screen of `weir top`: what is drawn, and what keys do.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Cell, Row, Table as Grid};

use super::tables::Table;

/// What the user has chosen.
#[derive(Debug, Default)]
pub struct Screen {
    /// The tables, sorted.
    tables: Vec<Table>,
    /// The chosen table.
    chosen: usize,
    /// The column that each table is sorted by, and its first row on the screen.
    views: Vec<(Option<usize>, usize)>,
    /// Whether the figures stand still.
    pub paused: bool,
}

impl Screen {
    /// Shows new tables.
    pub fn show(&mut self, tables: Vec<Table>) {
        self.tables = tables;
        self.views.resize(self.tables.len(), (None, 0));
        for (table, (column, first)) in self.tables.iter_mut().zip(&mut self.views) {
            if let Some(column) = column {
                table.sort(*column);
            }
            *first = (*first).min(table.rows.len().saturating_sub(1));
        }
    }

    /// Acts on a key. Returns `false` if it ends the program.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let count = self.tables.len().max(1);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            // In raw mode the terminal sends no signal.
            KeyCode::Char('c') if control => return false,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Tab | KeyCode::Right => self.chosen = (self.chosen + 1) % count,
            KeyCode::BackTab | KeyCode::Left => self.chosen = (self.chosen + count - 1) % count,
            KeyCode::Char('s') => self.sort(),
            KeyCode::Up => self.scroll(false),
            KeyCode::Down => self.scroll(true),
            _ => {}
        }
        true
    }

    /// Sorts the chosen table by the next column.
    fn sort(&mut self) {
        let table = self.tables.get_mut(self.chosen);
        if let (Some(table), Some((column, first))) = (table, self.views.get_mut(self.chosen)) {
            let next = column.map_or(0, |column| (column + 1) % table.columns.len().max(1));
            table.sort(next);
            (*column, *first) = (Some(next), 0);
        }
    }

    fn scroll(&mut self, down: bool) {
        let rows = self
            .tables
            .get(self.chosen)
            .map_or(0, |table| table.rows.len());
        if let Some((_, first)) = self.views.get_mut(self.chosen) {
            *first = match down {
                true => (*first + 1).min(rows.saturating_sub(1)),
                false => first.saturating_sub(1),
            };
        }
    }

    /// Draws everything.
    pub fn draw(&self, frame: &mut Frame<'_>, title: &str) {
        let lines = [
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ];
        let [top, middle, bottom] = Layout::vertical(lines).areas(frame.area());
        let state = if self.paused { "  paused" } else { "" };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(Line::styled(format!("{title}{state}"), bold), top);
        let keys = "q quit   tab, arrows table   up, down scroll   s sort   p pause";
        frame.render_widget(Line::raw(keys), bottom);
        let [left, right] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(36)]).areas(middle);
        let [devices, drops, queues] = Layout::vertical([
            Constraint::Fill(4),
            Constraint::Fill(3),
            Constraint::Fill(3),
        ])
        .areas(left);
        let [stages, cpus] =
            Layout::vertical([Constraint::Length(13), Constraint::Fill(1)]).areas(right);
        for (at, area) in [devices, drops, queues, stages, cpus]
            .into_iter()
            .enumerate()
        {
            self.table(frame, at, area);
        }
    }

    fn table(&self, frame: &mut Frame<'_>, at: usize, area: Rect) {
        let (Some(table), Some((sorted, first))) = (self.tables.get(at), self.views.get(at)) else {
            return;
        };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let border = if at == self.chosen {
            bold
        } else {
            Style::new()
        };
        let more = match first {
            0 => String::new(),
            first => format!(", from row {}", first + 1),
        };
        let title = format!("{}{more}", table.title);
        let block = Block::new()
            .borders(Borders::TOP)
            .border_style(border)
            .title(Line::styled(title, border));
        let heads = table.columns.iter().enumerate().map(|(column, head)| {
            let chosen = *sorted == Some(column);
            let underlined = bold.add_modifier(Modifier::UNDERLINED);
            Cell::new(*head).style(if chosen { underlined } else { bold })
        });
        let rows = table.rows.iter().skip(*first).map(|row| {
            Row::new(row.iter().map(|cell| {
                let line = Line::raw(cell.text.as_str());
                Cell::new(match cell.number {
                    Some(_) => line.right_aligned(),
                    None => line,
                })
            }))
        });
        let widths = table.widths().into_iter();
        let widths = widths.map(|width| Constraint::Length(u16::try_from(width).unwrap_or(40)));
        let grid = Grid::new(rows, widths)
            .header(Row::new(heads))
            .column_spacing(2)
            .block(block);
        frame.render_widget(grid, area);
    }
}

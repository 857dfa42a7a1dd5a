//! A software rasteriser for egui's meshes: the same picture on every machine, with or without a GPU.

use std::collections::HashMap;

use eframe::egui::epaint::{ImageDelta, Primitive, Vertex};
use eframe::egui::{
    Color32, ColorImage, Context, FullOutput, ImageData, Mesh, Pos2, Rect, TextureId, TexturesDelta, Vec2,
};
use egui_kittest::TestRenderer;
use image::{Rgba, RgbaImage};

/// A colour with premultiplied alpha in gamma space, each channel from 0 to 255, as egui blends.
type Colour = [f32; 4];

#[derive(Default)]
pub struct Raster {
    textures: HashMap<TextureId, ColorImage>,
}

impl Raster {
    fn update(&mut self, id: TextureId, delta: ImageDelta) {
        let ImageData::Color(image) = delta.image;
        let Some([left, top]) = delta.pos else {
            self.textures.insert(id, ColorImage::clone(&image));
            return;
        };
        let texture = self.textures.get_mut(&id).expect("a patch follows a whole texture");
        let width = texture.size[0];
        for (row, pixels) in image.pixels.chunks_exact(image.size[0]).enumerate() {
            let start = (top + row) * width + left;
            texture.pixels[start..start + pixels.len()].copy_from_slice(pixels);
        }
    }
}

impl TestRenderer for Raster {
    fn handle_delta(&mut self, delta: &mut TexturesDelta) {
        for (id, deltas) in delta.set.drain() {
            deltas.into_iter().for_each(|delta| self.update(id, delta));
        }
        for id in delta.free.drain() {
            self.textures.remove(&id);
        }
    }

    fn render(&mut self, context: &Context, output: &FullOutput) -> Result<RgbaImage, String> {
        let scale = context.pixels_per_point();
        let size = (context.content_rect().size() * scale).round();
        let mut image = RgbaImage::from_pixel(size.x as u32, size.y as u32, Rgba([0, 0, 0, 255]));
        for shape in context.tessellate(output.shapes.clone(), scale) {
            let Primitive::Mesh(mesh) = &shape.primitive else {
                return Err("a paint callback: only meshes can be drawn here".to_owned());
            };
            let texture = self.textures.get(&mesh.texture_id).ok_or("a mesh whose texture was never made")?;
            let clip = (shape.clip_rect * scale).intersect(Rect::from_min_size(Pos2::ZERO, size));
            for triangle in triangles(mesh, scale) {
                fill(&mut image, &clip, texture, &triangle);
            }
        }
        Ok(image)
    }
}

/// The triangles in pixels, all with the same orientation, without empty ones.
fn triangles(mesh: &Mesh, scale: f32) -> impl Iterator<Item = [Vertex; 3]> {
    let vertex = move |index: u32| {
        let vertex = mesh.vertices[index as usize];
        Vertex { pos: vertex.pos * scale, ..vertex }
    };
    mesh.indices.chunks_exact(3).filter_map(move |indices| {
        let [a, b, c] = [vertex(indices[0]), vertex(indices[1]), vertex(indices[2])];
        let area = side(a.pos, b.pos, c.pos);
        match area {
            _ if area > 0.0 => Some([a, b, c]),
            _ if area < 0.0 => Some([a, c, b]),
            _ => None,
        }
    })
}

/// Twice the signed area of a triangle; positive if `point` is inside the edge.
fn side(from: Pos2, to: Pos2, point: Pos2) -> f32 {
    let (edge, way) = (to - from, point - from);
    edge.x * way.y - edge.y * way.x
}

/// Top-left rule: of two triangles with a common edge, the one that has it on its left or top owns its pixels.
fn owns(from: Pos2, to: Pos2) -> bool {
    let edge = to - from;
    edge.y < 0.0 || (edge.y == 0.0 && edge.x > 0.0)
}

fn fill(image: &mut RgbaImage, clip: &Rect, texture: &ColorImage, triangle: &[Vertex; 3]) {
    let [a, b, c] = triangle;
    let bounds =
        Rect::from_points(&[a.pos, b.pos, c.pos]).intersect(Rect::from_min_max(clip.min.round(), clip.max.round()));
    if bounds.is_negative() {
        return;
    }
    let edges = [(b.pos, c.pos), (c.pos, a.pos), (a.pos, b.pos)];
    let area = side(a.pos, b.pos, c.pos);
    let is_flat = [b, c].iter().all(|vertex| vertex.color == a.color && vertex.uv == a.uv);
    let flat = tinted(colour(a.color), sample(texture, a.uv));
    for y in bounds.min.y.floor() as u32..bounds.max.y.ceil() as u32 {
        for x in bounds.min.x.floor() as u32..bounds.max.x.ceil() as u32 {
            let centre = Pos2::new(x as f32 + 0.5, y as f32 + 0.5);
            let sides = edges.map(|(from, to)| (side(from, to, centre), owns(from, to)));
            if !clip.contains(centre) || sides.iter().any(|(side, owns)| *side < 0.0 || (*side == 0.0 && !owns)) {
                continue;
            }
            let source = if is_flat {
                flat
            } else {
                let shares = sides.map(|(side, _)| side / area);
                let parts = [a, b, c].map(|vertex| colour(vertex.color));
                let tint =
                    std::array::from_fn(|channel| (0..3).map(|corner| parts[corner][channel] * shares[corner]).sum());
                let place = a.uv.to_vec2() * shares[0] + b.uv.to_vec2() * shares[1] + c.uv.to_vec2() * shares[2];
                tinted(tint, sample(texture, place.to_pos2()))
            };
            blend(image.get_pixel_mut(x, y), source);
        }
    }
}

fn colour(colour: Color32) -> Colour {
    colour.to_array().map(f32::from)
}

fn tinted(tint: Colour, texel: Colour) -> Colour {
    std::array::from_fn(|channel| tint[channel] * texel[channel] / 255.0)
}

/// The texture at a position (0 to 1), bilinearly interpolated.
fn sample(texture: &ColorImage, place: Pos2) -> Colour {
    let size = Vec2::new(texture.size[0] as f32, texture.size[1] as f32);
    let at = (place.to_vec2() * size - Vec2::splat(0.5)).clamp(Vec2::ZERO, size - Vec2::splat(1.0));
    let (low, part) = (at.floor(), at - at.floor());
    let texel = |x: f32, y: f32| {
        let (x, y) = (x.min(size.x - 1.0) as usize, y.min(size.y - 1.0) as usize);
        colour(texture.pixels[y * texture.size[0] + x])
    };
    let near = texel(low.x, low.y);
    if part == Vec2::ZERO {
        return near;
    }
    let (right, below) = (texel(low.x + 1.0, low.y), texel(low.x, low.y + 1.0));
    let across = texel(low.x + 1.0, low.y + 1.0);
    std::array::from_fn(|channel| {
        let upper = near[channel] + (right[channel] - near[channel]) * part.x;
        let lower = below[channel] + (across[channel] - below[channel]) * part.x;
        upper + (lower - upper) * part.y
    })
}

fn blend(pixel: &mut Rgba<u8>, source: Colour) {
    let through = 1.0 - source[3] / 255.0;
    for (channel, below) in pixel.0.iter_mut().enumerate() {
        *below = (source[channel] + f32::from(*below) * through).round() as u8;
    }
}
